"""Machine code of compiled kernels: disassembly, basic blocks, and execution of control flow and index arithmetic."""
