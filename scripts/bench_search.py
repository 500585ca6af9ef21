"""Time whole searches against Halide's C++ GPU autoscheduler (Anderson2021) in one run; prints times and ratios.

See `benchmarks.search`.
"""

from __future__ import annotations

import sys

from benchmarks.search import main

if __name__ == "__main__":
    sys.exit(main())
