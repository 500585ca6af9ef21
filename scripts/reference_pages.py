"""Write the generated parts of pages in docs/reference: features, commands, settings, environment variables.

See `drawings.reference_pages`.
"""

from __future__ import annotations

from drawings.reference_pages import main

if __name__ == "__main__":
    main()
