"""Counts and simulated times of kernels with a tile per block and a tile per warp; needs no GPU.

See `benchmarks.warp_tiles`.
"""

from __future__ import annotations

from benchmarks.warp_tiles import main

if __name__ == "__main__":
    main()
