"""Compare Sioutas' strategy with the baseline, a commit before and the beam search by predicted and simulated times.

See `benchmarks.sioutas`.
"""

from __future__ import annotations

import sys

from benchmarks.sioutas import main

if __name__ == "__main__":
    sys.exit(main())
