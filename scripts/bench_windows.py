"""Show how windows of 3 to 255 elements are computed, and their times beside OpenCV's.

See `benchmarks.windows`.
"""

from __future__ import annotations

from benchmarks.windows import main

if __name__ == "__main__":
    main()
