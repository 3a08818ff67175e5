"""
Everything that can go wrong, from the top.

* WatchdogError
  - ConfigError      the configuration is not usable; every fault is listed
  - CommandError     a command cannot do what was asked; the sentence says why
  - ProbeError       a source could not be read this round
    - NoAnswer       nothing answered: refused, timed out, or a proxy said so for it
    - NotUnderstood  something answered that is not what the probe reads
  - SinkError        a report could not be delivered (permanent: do not retry)
  - PayloadError     what was posted to us can never be taken; the sentence names the key
  - TryLater         what was posted to us cannot be taken now
"""

from __future__ import annotations


class WatchdogError(Exception):
    """Base of every error that serving-watchdog raises on purpose."""


class ConfigError(WatchdogError):
    """The configuration is not usable; `faults` holds one line for each fault."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class CommandError(WatchdogError):
    """A command cannot do what was asked."""


class ProbeError(WatchdogError):
    """A source could not be read this round."""


class NoAnswer(ProbeError):
    """Nothing answered: refused, timed out, or a proxy answered in its place."""


class NotUnderstood(ProbeError):
    """Something answered, and it is not what this probe can read."""


class SinkError(WatchdogError):
    """A report could not be delivered."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class PayloadError(WatchdogError):
    """What was posted can never be taken; the sentence names the key."""


class TryLater(WatchdogError):
    """What was posted cannot be taken now; the same may be taken later."""
