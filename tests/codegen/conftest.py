"""Fixtures for tests of machine code."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.runtime.compile.nvrtc import have_nvrtc

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def nvdisasm(monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns the disassembler, and lets the modules beside the scripts be imported."""
    monkeypatch.syspath_prepend(SCRIPTS)
    from sass.disassembly import NoDisassembler, find_nvdisasm

    if not have_nvrtc():
        pytest.skip("needs NVRTC")
    try:
        return find_nvdisasm()
    except NoDisassembler as e:
        pytest.skip(str(e))
