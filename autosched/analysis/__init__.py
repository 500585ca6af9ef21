"""Bound pipelines: symbolic indices, regions, dependences, the stage graph."""
