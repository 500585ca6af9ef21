"""Legality, one small function a rule; each yields reasons."""
