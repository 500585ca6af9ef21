"""Fit the weights of PolyMage-GPU's cost to simulated times of groups, and correlate costs with times.

See `calibration.polymage_weights`.
"""

from __future__ import annotations

from calibration.polymage_weights import main

if __name__ == "__main__":
    main()
