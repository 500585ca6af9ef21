"""An image whose channels come last beside the same image with its channels first; prints milliseconds and ratios.

See `experiments.channel_layout`.
"""

from __future__ import annotations

from experiments.channel_layout import main

if __name__ == "__main__":
    main()
