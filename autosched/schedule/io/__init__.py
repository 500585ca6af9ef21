"""Schedules as JSON, as text for people, and as hashes.

Begin with `serialise` (JSON files) and `text` (the loop nests that `ScheduledPipeline.text()` prints).
"""
