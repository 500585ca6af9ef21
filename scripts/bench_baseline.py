"""Measured speedup over `roots` by predicted speedup; prints Markdown.

See `experiments.baseline_preference`.
"""

from __future__ import annotations

import sys

from experiments.baseline_preference import main

if __name__ == "__main__":
    sys.exit(main())
