"""Check, time, measure and train on a GPU, in one command that needs neither a network nor an installation.

See `campaign.command_line`.
"""

from __future__ import annotations

import sys

from campaign.command_line import main

if __name__ == "__main__":
    sys.exit(main())
