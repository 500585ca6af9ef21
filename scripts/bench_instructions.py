"""Executed instructions of generated kernels over a lower bound; needs no GPU.

See `benchmarks.instructions`.
"""

from __future__ import annotations

import sys

from benchmarks.instructions import main

if __name__ == "__main__":
    sys.exit(main())
