"""Compare searches by the learned and by the analytical model at the same budget; prints Markdown.

See `experiments.regret`.
"""

from __future__ import annotations

import sys

from experiments.regret import main

if __name__ == "__main__":
    sys.exit(main())
