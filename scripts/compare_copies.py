"""What copies of sources in shared memory cost and save, by how much longer kernels may be predicted to take with them.

See `experiments.cache_read`.
"""

from __future__ import annotations

import sys

from experiments.cache_read import main

if __name__ == "__main__":
    sys.exit(main())
