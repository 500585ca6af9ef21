"""Try each install line of README.md in an empty environment, with README's first example.

See `checks.installs`.
"""

from __future__ import annotations

import sys

from checks.installs import main

if __name__ == "__main__":
    sys.exit(main())
