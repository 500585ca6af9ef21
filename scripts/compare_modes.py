"""Compare the three modes on suite apps: search time and run time of the schedule; prints Markdown.

See `experiments.modes`.
"""

from __future__ import annotations

import sys

from experiments.modes import main

if __name__ == "__main__":
    sys.exit(main())
