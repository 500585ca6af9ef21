"""Compare the CPU's timing model with times of kernels: rank correlation, regret and better rates; prints tables.

See `calibration.cpu_model`.
"""

from __future__ import annotations

import sys

from calibration.cpu_model import main

if __name__ == "__main__":
    sys.exit(main())
