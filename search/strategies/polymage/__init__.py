"""Automatic fusion of PolyMage-GPU (Jangda and Guha 2020, section 6); begin with `polymage_strategy`."""
