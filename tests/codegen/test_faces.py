"""Machine code of fused sweeps: blocks at the faces of the grid execute hardly more than interior blocks."""

from __future__ import annotations

import pytest
from benchmarks.faces import fused_sweeps, measured

from autosched.lower.program import lower

pytestmark = pytest.mark.usefixtures("nvdisasm")

FACES = ("z <", "z >", "y <", "y >", "x <", "x >")


@pytest.mark.parametrize("source", ["global", pytest.param("window", marks=pytest.mark.fuzz), "async"])
def test_blocks_at_faces_execute_at_most_half_as_much_again(source: str) -> None:
    bound, schedule = fused_sweeps((64, 64, 256), 16, source)
    issued, registers, spilled = measured(lower(bound, schedule))
    for face in FACES:
        assert issued[face] <= 1.5 * issued["interior"], face
    assert registers <= 96 and spilled == 0  # those of the kernel with boundary code in all steps
