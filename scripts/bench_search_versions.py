"""Time default searches of two versions of this library in turns.

See `benchmarks.search_versions`.
"""

from __future__ import annotations

import sys

from benchmarks.search_versions import main

if __name__ == "__main__":
    sys.exit(main())
