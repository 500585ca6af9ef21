"""Time a cost model's predictions beside featurizing the same kernels, for batches of several sizes.

See `benchmarks.model`.
"""

from __future__ import annotations

from benchmarks.model import main

if __name__ == "__main__":
    main()
