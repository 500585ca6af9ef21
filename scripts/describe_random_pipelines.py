"""Statistics of random pipelines as tables; can write the page docs/reference/random-pipelines.md.

See `drawings.random_pipelines`.
"""

from __future__ import annotations

import sys

from drawings.random_pipelines import main

if __name__ == "__main__":
    sys.exit(main())
