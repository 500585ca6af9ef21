"""Compare strategies by predicted times, and by measured times on this machine's CPU; prints tables.

See `experiments.strategies`.
"""

from __future__ import annotations

import sys

from experiments.strategies import main

if __name__ == "__main__":
    sys.exit(main())
