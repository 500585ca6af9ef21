"""Registers where they can be known, and the reason where they cannot; occupancy by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

import autosched
from autosched.apps import get_app
from autosched.report.resources import compiled_resources, occupancy
from autosched.runtime.backends.executable import KernelInfo
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.target import get_target

H200 = get_target("h200")


def blur(target: str = "h200") -> autosched.ScheduledPipeline:
    app = get_app("blur")
    return autosched.schedule(app.build(), app.shapes(app.small_sizes), target, strategy="roots")


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_registers_come_from_the_compiler() -> None:
    found = compiled_resources(blur())
    assert found.note == "" and len(found.kernels) == 2
    assert all(k.registers and k.spill_bytes == 0 and k.stack_bytes == 0 for k in found.kernels)


def test_a_cpu_has_none() -> None:
    found = compiled_resources(blur("cpu"))
    assert "for a CPU" in found.note
    assert [k.registers for k in found.kernels] == [None, None]
    assert occupancy(get_target("cpu"), found.kernels[0]) is None


def test_without_nvrtc_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.errors import CompileError

    def missing() -> str:
        raise CompileError("NVRTC cannot be loaded: install it", log="ImportError: a long story")

    monkeypatch.setattr("autosched.runtime.compile.nvrtc.nvrtc_version", missing)
    found = compiled_resources(blur())
    assert found.note == "Registers and spills are not known: NVRTC cannot be loaded: install it"
    assert [k.block for k in found.kernels] and [k.registers for k in found.kernels] == [None, None]


@pytest.mark.parametrize(
    ("threads", "shared", "registers", "blocks", "ratio", "limited_by"),
    [
        (256, 0, None, 8, 1.0, "warps"),
        (256, 0, 32, 8, 1.0, "warps"),
        (256, 0, 64, 4, 0.5, "registers"),
        (256, 0, 255, 1, 0.125, "registers"),
        (256, 60 * 1024, 32, 3, 0.375, "shared memory"),
        (32, 0, 16, 32, 0.5, "blocks"),
        (33, 0, 16, 32, 1.0, "blocks"),
        (1024, 227 * 1024, 255, 1, 0.5, "shared memory"),
    ],
)
def test_occupancy(
    threads: int, shared: int, registers: int | None, blocks: int, ratio: float, limited_by: str
) -> None:
    info = KernelInfo("k", (1, 1, 1), (threads, 1, 1), shared, registers)
    found = occupancy(H200, info)
    assert found is not None
    assert (found.blocks, found.ratio, found.limited_by) == (blocks, ratio, limited_by)


def test_occupancy_of_a_multiprocessor_without_room() -> None:
    """A kernel that compiles can run, so at least one block is resident."""
    tiny = replace(H200, registers_per_sm=1024)
    found = occupancy(tiny, KernelInfo("k", (1, 1, 1), (256, 1, 1), 0, 64))
    assert found is not None and found.blocks == 1
