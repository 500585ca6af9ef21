"""Configuration groups of the training and tuning programs, in Hydra's form."""
