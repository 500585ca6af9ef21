"""Search: from a pipeline, its shapes and a target to a ranked list of schedules."""
