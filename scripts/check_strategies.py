"""Check that every strategy finds a legal schedule of every random pipeline; exits 1 on any failure.

See `checks.strategies`.
"""

from __future__ import annotations

import sys

from checks.strategies import main

if __name__ == "__main__":
    sys.exit(main())
