"""Effect of cache reads in shared memory, by the tolerated increase of a kernel's predicted time.

See `experiments.cache_read`.
"""

from __future__ import annotations

import sys

from experiments.cache_read import main

if __name__ == "__main__":
    sys.exit(main())
