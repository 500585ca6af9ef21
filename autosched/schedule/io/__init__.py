"""Schedules as JSON, as readable text and as hashes.

Start with `serialise` (JSON files) and `text` (the loop nests that `ScheduledPipeline.text()` prints).
"""
