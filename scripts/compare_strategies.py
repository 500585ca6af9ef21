"""Predicted times of the schedules that each strategy finds, and real ones on this machine's CPU; prints tables.

See `experiments.strategies`.
"""

from __future__ import annotations

import sys

from experiments.strategies import main

if __name__ == "__main__":
    sys.exit(main())
