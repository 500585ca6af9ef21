"""What a call of a compiled pipeline costs the host, beside one addition in CuPy and in PyTorch; needs a GPU.

See `benchmarks.calls`.
"""

from __future__ import annotations

from benchmarks.calls import main

if __name__ == "__main__":
    main()
