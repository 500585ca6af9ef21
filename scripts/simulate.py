"""Simulated times of an app's schedules, kernel by kernel, with the analytical model's predictions.

See `experiments.simulation`.
"""

from __future__ import annotations

import sys

from experiments.simulation import main

if __name__ == "__main__":
    sys.exit(main())
