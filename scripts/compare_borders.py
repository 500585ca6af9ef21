"""What kernels gain when loops inside the points of a thread, with guards, stay loops at a border; prints Markdown.

See `experiments.guarded_loops`.
"""

from __future__ import annotations

import sys

from experiments.guarded_loops import main

if __name__ == "__main__":
    sys.exit(main())
