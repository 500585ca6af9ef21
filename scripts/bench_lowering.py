"""Time lowering and printing a kernel over the suite, at the papers' sizes.

See `benchmarks.lowering`.
"""

from __future__ import annotations

from benchmarks.lowering import main

if __name__ == "__main__":
    main()
