"""Write docs/reference/gallery.md: inputs, outputs, stage graph and loop nests of the suite's image apps.

See `drawings.gallery`.
"""

from __future__ import annotations

from drawings.gallery import main

if __name__ == "__main__":
    main()
