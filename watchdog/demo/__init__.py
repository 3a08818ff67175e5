"""The incident, told by the real daemon about a simulated vLLM server."""

from __future__ import annotations

from watchdog.demo.story import run

__all__ = ["run"]
