"""Effect of not unrolling guarded loops inside unrolled points of boundary code; prints Markdown.

See `experiments.guarded_loops`.
"""

from __future__ import annotations

import sys

from experiments.guarded_loops import main

if __name__ == "__main__":
    sys.exit(main())
