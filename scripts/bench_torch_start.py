"""Time to the first result of torch.compile: AOTAutograd alone, and the backend with an empty and a filled cache.

See `benchmarks.torch_start`.
"""

from __future__ import annotations

from benchmarks.torch_start import main

if __name__ == "__main__":
    main()
