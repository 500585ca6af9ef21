"""A scheduled pipeline as one HTML file that needs nothing else: stage graph, loop nest, kernels, times."""
