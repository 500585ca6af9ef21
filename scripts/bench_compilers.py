"""How fast C compilers make the same schedules, in turns; prints a table.

See `benchmarks.compilers`.
"""

from __future__ import annotations

from benchmarks.compilers import main

if __name__ == "__main__":
    main()
