"""Find schedules of Harris corners and unsharp mask for an H200 and run them on a photograph.

See `drawings.demo`.
"""

from __future__ import annotations

import sys

from drawings.demo import main

import autosched

if __name__ == "__main__":
    try:
        sys.exit(main())
    except autosched.AutoschedError as problem:
        sys.exit(f"error: {problem}")
