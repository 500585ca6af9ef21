"""Prove that divisions by a constant give the IEEE quotient: compare them with the processor's own division.

See `checks.prove_division`.
"""

from __future__ import annotations

import sys

from checks.prove_division import main

if __name__ == "__main__":
    sys.exit(main())
