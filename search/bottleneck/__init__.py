"""Bottlenecks of kernels: operational intensity, classes, code differencing and the moves that they suggest.

After section IV of Rawat et al., "On Optimizing Complex Stencils on GPUs" (Artemis). `kernel_profile` has the work of a
kernel by resource, from counts of features, of the simulated device, or of ``ncu``; `classification` has its class.
"""
