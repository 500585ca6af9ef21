"""Random legal schedules of every suite app, judged by all witnesses; prints coverage and exits 1 on any difference.

See `checks.suite`.
"""

from __future__ import annotations

from checks.suite import main

if __name__ == "__main__":
    main()
