"""From schedules to the numbers a cost model reads, for many candidates at once."""
