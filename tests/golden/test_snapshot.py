"""Three apps are compiled as before: a change on purpose writes the snapshot anew (`make snapshot`)."""

from __future__ import annotations

import json

import pytest

from autosched.runtime.compile.nvrtc import have_nvrtc
from tests.golden.snapshot import SNAPSHOT, differences, digests, targets


@pytest.mark.skipif(not have_nvrtc(), reason="which schedules spill registers NVRTC says")
@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("app", ["blur", "hist", "depthwise_separable_conv"])
def test_what_the_compiler_makes_is_as_before(app: str, target: str) -> None:
    snapshot = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    case = f"{app} {target}"
    assert case in snapshot
    assert not differences({case: digests(app, target)}, snapshot), (
        "if this is meant, write the snapshot anew (make snapshot) and say in the commit why"
    )
