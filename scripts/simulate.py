"""What the simulated GPU makes of an app's schedules, kernel by kernel, beside the analytical model's prediction.

See `experiments.simulation`.
"""

from __future__ import annotations

import sys

from experiments.simulation import main

if __name__ == "__main__":
    sys.exit(main())
