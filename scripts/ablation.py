"""What parts of the search's method are worth in times of what it finds, not in predictions alone; prints Markdown.

See `experiments.search_method_ablation`.
"""

from __future__ import annotations

import sys

from experiments.search_method_ablation import main

if __name__ == "__main__":
    sys.exit(main())
