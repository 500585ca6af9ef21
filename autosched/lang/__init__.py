"""The pipeline language: expressions, Funcs, inputs, reductions, boundary conditions."""

import autosched.lang.operators  # gives expressions their operators
import autosched.lang.serialise  # noqa: F401 - lets pipelines be pickled
