"""Instructions, traffic and resources of schedules for the programs of Artemis; needs no GPU.

See `benchmarks.stencils`.
"""

from __future__ import annotations

from benchmarks.stencils import main

if __name__ == "__main__":
    main()
