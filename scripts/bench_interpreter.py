"""Time the NumPy interpreter on every application of the suite.

See `benchmarks.interpreter`.
"""

from __future__ import annotations

from benchmarks.interpreter import main

if __name__ == "__main__":
    main()
