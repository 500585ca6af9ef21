"""Tiles per block and per warp on the programs of PolyMage-GPU: its Figures 8 and 9, Tables 2, 4 and 5; needs no GPU.

See `benchmarks.polymage`.
"""

from __future__ import annotations

from benchmarks.polymage import main

if __name__ == "__main__":
    main()
