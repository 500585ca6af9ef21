"""Time reductions, softmax, norms, attention, scans and windows beside NumPy, PyTorch and OpenCV, in one process.

See `benchmarks.rows`.
"""

from __future__ import annotations

from benchmarks.rows import main

if __name__ == "__main__":
    main()
