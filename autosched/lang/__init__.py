"""The pipeline language: expressions, Funcs, inputs, reductions, boundary conditions."""
