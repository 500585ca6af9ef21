"""Compare predicted with measured times of user pipelines and suite apps: factors and rank correlations.

See `benchmarks.predictions`.
"""

from __future__ import annotations

import sys

from benchmarks.predictions import main

if __name__ == "__main__":
    sys.exit(main())
