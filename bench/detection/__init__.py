"""
Endpoints' lives, made up from a seed: traffic, drift, restarts and faults, at no cost of hardware.

What follows the incident and what is assumed stands beside each figure, here and in `mix`,
`acceptance`, `traffic` and `interruptions`.
"""
