"""Plot the search's speedup over Sioutas' strategy on a GPU, app by app (the paper's Figure 5).

See `drawings.speedups`.
"""

from __future__ import annotations

import sys

from drawings.speedups import main

if __name__ == "__main__":
    sys.exit(main())
