"""A scheduled pipeline as one self-contained HTML file: stage graph, loop nest, kernels, times."""
