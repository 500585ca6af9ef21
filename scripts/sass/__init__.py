"""Machine code of compiled kernels: disassembled, cut into basic blocks, and run as far as its control flow goes."""
