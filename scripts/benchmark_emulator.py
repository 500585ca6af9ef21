"""Time the CUDA emulator: 262,144 threads with one barrier each, and the compilation of one kernel.

See `benchmarks.emulator`.
"""

from __future__ import annotations

from benchmarks.emulator import main

if __name__ == "__main__":
    main()
