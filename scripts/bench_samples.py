"""Time of producing samples against NVRTC alone on the same kernels and number of processes.

See `benchmarks.samples`.
"""

from __future__ import annotations

from benchmarks.samples import main

if __name__ == "__main__":
    main()
