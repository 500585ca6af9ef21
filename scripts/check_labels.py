"""Find the labels of a file whose emitted text is still the same as when they were taken.

See `checks.labels`.
"""

from __future__ import annotations

import sys

from checks.labels import main

if __name__ == "__main__":
    sys.exit(main())
