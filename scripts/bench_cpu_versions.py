"""Time the C backends of two versions of this library, interleaved in one run.

See `benchmarks.cpu_versions`.
"""

from __future__ import annotations

import sys

from benchmarks.cpu_versions import main

if __name__ == "__main__":
    sys.exit(main())
