"""What a pipeline accesses: symbolic indices, regions, dependences, the stage graph."""
