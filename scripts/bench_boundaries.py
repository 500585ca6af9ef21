"""Show tiles and times of a chain of stencils, each with a boundary condition of its own.

See `benchmarks.boundaries`.
"""

from __future__ import annotations

from benchmarks.boundaries import main

if __name__ == "__main__":
    main()
