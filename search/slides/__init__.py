"""Windows that slide along what a block walks, for the schedules that a search has found."""
