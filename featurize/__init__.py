"""Features of schedules for cost models, computed for batches of candidates."""
