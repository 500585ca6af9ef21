"""The three modes on suite apps: what each takes to find a schedule, and how fast that is; prints Markdown.

See `experiments.modes`.
"""

from __future__ import annotations

import sys

from experiments.modes import main

if __name__ == "__main__":
    sys.exit(main())
