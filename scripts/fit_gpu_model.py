"""Compare a GPU's timing model with measured times of kernels: rank correlation, regret and better rates.

See `calibration.gpu_model`.
"""

from __future__ import annotations

import sys

from calibration.gpu_model import main

if __name__ == "__main__":
    sys.exit(main())
