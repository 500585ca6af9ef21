"""Compare fusion by dynamic programming with beam search by predicted times and seconds of the search.

See `benchmarks.fusion`.
"""

from __future__ import annotations

import sys

from benchmarks.fusion import main

if __name__ == "__main__":
    sys.exit(main())
