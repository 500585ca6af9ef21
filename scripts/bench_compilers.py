"""Run times of the same schedules under several C compilers, interleaved; prints a table.

See `benchmarks.compilers`.
"""

from __future__ import annotations

from benchmarks.compilers import main

if __name__ == "__main__":
    main()
