"""Host overhead of calling a compiled pipeline, against one addition in CuPy and in PyTorch; needs a GPU.

See `benchmarks.calls`.
"""

from __future__ import annotations

from benchmarks.calls import main

if __name__ == "__main__":
    main()
