"""What the compiler is told of a kernel's launches, by which it chooses how many registers a thread may have.

Told only how many threads a block has, ptxas weighs registers against blocks that fit a multiprocessor at once, and
gives a thread so few that it spills, though more were free: 32 with 1,280 bytes spilled, where blocks of 1,024 threads
leave 64. Told that one block is enough, it takes what there is.
"""

from __future__ import annotations

import re

_HEAD = re.compile(r"^KERNEL\((\w+), (\d+)\)\(", re.MULTILINE)


def relax_launch_bounds(source: str) -> str:
    """Return generated CUDA C whose threads may have all registers that one block leaves them; other text as it is."""
    return _HEAD.sub(r"KERNEL(\1, \2, 1)(", source)
