"""Effect of launch bounds for more resident blocks; prints Markdown, needs no GPU.

See `experiments.resident_blocks`.
"""

from __future__ import annotations

import sys

from experiments.resident_blocks import main

if __name__ == "__main__":
    sys.exit(main())
