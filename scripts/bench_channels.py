"""Channels-last against channels-first layout of one image; prints milliseconds and ratios.

See `experiments.channel_layout`.
"""

from __future__ import annotations

from experiments.channel_layout import main

if __name__ == "__main__":
    main()
