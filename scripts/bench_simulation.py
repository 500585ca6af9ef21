"""Compare simulated with measured times of kernels; needs no GPU.

See `benchmarks.simulation`.
"""

from __future__ import annotations

import sys

from benchmarks.simulation import main

if __name__ == "__main__":
    sys.exit(main())
