"""Write pystencils' CUDA kernels of stencils of volumes, and the program that times them, to a directory of peers.

See `peers.pystencils_kernels`.
"""

from __future__ import annotations

from peers.pystencils_kernels import main

if __name__ == "__main__":
    main()
