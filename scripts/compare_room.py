"""Effect of relaxed launch bounds on kernels that spill registers; prints Markdown, needs no GPU.

See `experiments.launch_bounds`.
"""

from __future__ import annotations

import sys

from experiments.launch_bounds import main

if __name__ == "__main__":
    sys.exit(main())
