"""Services of worker processes in tests."""

from __future__ import annotations

import os
import time


class Doer:
    """Doubles numbers, or fails in some way."""

    def do(self, what: object) -> object:
        """Return twice a number; crash or hang on request."""
        if what == "crash":
            os._exit(3)
        if what == "hang":
            time.sleep(60)
        return 2 * what  # type: ignore[operator]
