"""How many times as fast as Sioutas' strategy the search is on a GPU, app by app (the paper's Figure 5), as a picture.

See `drawings.speedups`.
"""

from __future__ import annotations

import sys

from drawings.speedups import main

if __name__ == "__main__":
    sys.exit(main())
