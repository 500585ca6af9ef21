"""How fast samples are made, beside how fast NVRTC alone compiles the same kernels in as many processes.

See `benchmarks.samples`.
"""

from __future__ import annotations

from benchmarks.samples import main

if __name__ == "__main__":
    main()
