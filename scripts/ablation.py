"""Ablation of the search method by times of the schedules found, not by predictions alone; prints Markdown.

See `experiments.search_method_ablation`.
"""

from __future__ import annotations

import sys

from experiments.search_method_ablation import main

if __name__ == "__main__":
    sys.exit(main())
