"""Run suite apps at their papers' sizes through the C backend and print time and peak memory; exits 1 if one fails.

See `checks.full_size_apps`.
"""

from __future__ import annotations

import sys

from checks.full_size_apps import main

from autosched.errors import AutoschedError

if __name__ == "__main__":
    try:
        sys.exit(main())
    except AutoschedError as problem:
        sys.exit(f"error: {problem}")
