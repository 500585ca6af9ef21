"""Instructions of blocks at the faces of a grid over those of interior blocks; needs no GPU.

See `benchmarks.faces`.
"""

from __future__ import annotations

from benchmarks.faces import main

if __name__ == "__main__":
    main()
