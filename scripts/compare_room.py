"""What kernels that spill gain when they are compiled with room for more registers; prints Markdown. Needs no GPU.

See `experiments.launch_bounds`.
"""

from __future__ import annotations

import sys

from experiments.launch_bounds import main

if __name__ == "__main__":
    sys.exit(main())
