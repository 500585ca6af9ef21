"""Tune apps with two versions of this library on the simulated device, with equal candidates and seeds.

See `benchmarks.tuning_versions`.
"""

from __future__ import annotations

import sys

from benchmarks.tuning_versions import main

if __name__ == "__main__":
    sys.exit(main())
