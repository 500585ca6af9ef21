"""Bring tables, labels, weights and figures up to date from the results of a campaign; see `campaign.publication`."""

from __future__ import annotations

import sys

from campaign.publication import main

if __name__ == "__main__":
    sys.exit(main())
