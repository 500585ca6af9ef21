"""Instructions that generated kernels execute, over those they cannot do without; needs no GPU.

See `benchmarks.instructions`.
"""

from __future__ import annotations

import sys

from benchmarks.instructions import main

if __name__ == "__main__":
    sys.exit(main())
