"""Time the C backend against NumPy/SciPy and, where built, Halide's CPU schedules, in one process.

See `benchmarks.cpu`.
"""

from __future__ import annotations

from benchmarks.cpu import main

if __name__ == "__main__":
    main()
