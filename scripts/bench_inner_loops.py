"""Machine code of the inner loops of matrix products and convolutions; needs no GPU.

See `benchmarks.inner_loops`.
"""

from __future__ import annotations

import sys

from benchmarks.inner_loops import main

if __name__ == "__main__":
    sys.exit(main())
