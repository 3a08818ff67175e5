"""The status page at `/`: one page that brings everything along."""

from __future__ import annotations

from watchdog.page.view import register

__all__ = ["register"]
