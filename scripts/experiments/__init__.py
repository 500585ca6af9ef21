"""Experiments behind design decisions: alternatives compared by model, simulation or time."""
