"""Host time of a compiled region of torch.compile beside its kernel, in one thread and in all; needs no GPU.

See `benchmarks.torch_calls`.
"""

from __future__ import annotations

from benchmarks.torch_calls import main

if __name__ == "__main__":
    main()
