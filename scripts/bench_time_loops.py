"""Time loops of smoothers on this machine's processor, called in turns with one sweep a kernel and with peers.

See `benchmarks.time_loops`.
"""

from __future__ import annotations

from benchmarks.time_loops import main

if __name__ == "__main__":
    main()
