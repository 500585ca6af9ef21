"""Searches with and without guides: kernels costed, processor seconds and predicted times; prints Markdown.

    python scripts/bench_guides.py [--rounds 2]

See `benchmarks.guides`.
"""

from __future__ import annotations

import sys

from benchmarks.guides import main

if __name__ == "__main__":
    sys.exit(main())
