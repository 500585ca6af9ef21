"""What the search finds with the learned model and with the analytical one, at the same budget; prints Markdown.

See `experiments.regret`.
"""

from __future__ import annotations

import sys

from experiments.regret import main

if __name__ == "__main__":
    sys.exit(main())
