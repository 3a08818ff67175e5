"""`python -m watchdog`: the same way in as the commands, with the same check first."""

from __future__ import annotations

import sys

from serving_watchdog_boot import main

if __name__ == "__main__":
    sys.exit(main())
