"""The scheduler of Sioutas et al. 2020 (AutoGPU): inlining, greedy grouping by an analytical cost, nested fusion."""
