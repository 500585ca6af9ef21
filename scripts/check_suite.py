"""Run random legal schedules of every suite app through all backends; prints coverage, exits 1 on any difference.

See `checks.suite`.
"""

from __future__ import annotations

from checks.suite import main

if __name__ == "__main__":
    main()
