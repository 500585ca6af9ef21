"""Time a cost model's predictions against featurizing the same kernels, for several batch sizes.

See `benchmarks.model`.
"""

from __future__ import annotations

from benchmarks.model import main

if __name__ == "__main__":
    main()
