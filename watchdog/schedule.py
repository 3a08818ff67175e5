"""
When rounds begin: every interval, and at once when asked.

APScheduler follows the wall clock, so the trigger is ours: the next time is always now plus the
interval, and a clock set a year ahead costs nothing. Who sees the clock step calls `at_once`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger


class Every(BaseTrigger):  # type: ignore[misc]
    """Fire now, and then each `seconds` after the last firing, wherever the clock stands."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime:
        """One time only, however far the clock went: no list of missed ones."""
        return now if previous is None else now + timedelta(seconds=self.seconds)


class Schedule:
    """One job in one thread, never two at a time; `seconds` between two beginnings."""

    def __init__(self, job: Callable[[], object], seconds: float) -> None:
        self._job, self._seconds = job, seconds
        self._scheduler = BackgroundScheduler(
            timezone=timezone.utc,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )

    def start(self) -> None:
        """Begin with the first one at once."""
        self._scheduler.add_job(self._job, Every(self._seconds), id="round")
        self._scheduler.start()

    def every(self, seconds: float) -> None:
        """Change the interval; one begins at once."""
        self._scheduler.reschedule_job("round", trigger=Every(seconds))

    def at_once(self) -> None:
        """Begin one now, and the next an interval later."""
        job = self._scheduler.get_job("round")
        if job is not None:
            job.modify(next_run_time=datetime.now(timezone.utc))

    def stop(self) -> None:
        """Begin no more; one that runs goes on."""
        self._scheduler.shutdown(wait=False)
