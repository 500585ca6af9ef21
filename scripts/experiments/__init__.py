"""Experiments behind decisions: one option against another, by model, simulation or time."""
