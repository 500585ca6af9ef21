"""A legal schedule of every random pipeline from every strategy; prints what failed and exits 1 if anything did.

See `checks.strategies`.
"""

from __future__ import annotations

import sys

from checks.strategies import main

if __name__ == "__main__":
    sys.exit(main())
