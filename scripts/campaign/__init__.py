"""The steps of `scripts/gpu_campaign.py`, each a module with a function ``run``."""
