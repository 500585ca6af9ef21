"""Fissions, foldings and retimings of stencils: operations, simulated times, registers and spills; needs no GPU.

See `benchmarks.fission`.
"""

from __future__ import annotations

from benchmarks.fission import main

if __name__ == "__main__":
    main()
