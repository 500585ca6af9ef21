"""Guides: values, hashes, and files."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from autosched import Guide, InputError, KernelGuide
from autosched.search.guidance.guide_file import guide_from_json, guide_from_yaml, guide_to_yaml, read_guide

FULL = Guide(
    KernelGuide(occupancy=0.5),
    {
        "out": KernelGuide("z", {"y": 8, "x": 32}, {"z": 64, "y": 2}, {"z": 2, "y": 2}, registers=128),
        "rows": KernelGuide(threads={"x": 16}),
    },
    {"rows": "shared", "image": "global"},
    (("rows", "out"),),
)


@pytest.mark.parametrize("guide", [Guide(), FULL, Guide(memory={"u": "registers"})])
def test_round_trips(guide: Guide, tmp_path: Path) -> None:
    (tmp_path / "guide.json").write_text(guide.to_json())
    (tmp_path / "guide.yaml").write_text(guide_to_yaml(guide))
    found = [
        guide_from_json(guide.to_json()), guide_from_yaml(guide_to_yaml(guide)), guide_from_yaml(guide.to_json()),
        read_guide(tmp_path / "guide.json"), read_guide(tmp_path / "guide.yaml"), pickle.loads(pickle.dumps(guide)),
        copy.deepcopy(guide),
    ]  # fmt: skip
    assert all(g == guide and hash(g) == hash(guide) for g in found)


def test_guides_are_immutable_and_hashable() -> None:
    sizes = {"x": 32}
    kernel = KernelGuide(threads=sizes)
    sizes["x"] = 64
    assert kernel.threads["x"] == 32
    assert len({FULL, Guide(), FULL.with_kernel("out", KernelGuide())}) == 3
    assert not Guide() and FULL and not KernelGuide() and KernelGuide(registers=64)


def test_choices_of_a_kernel_take_precedence() -> None:
    guide = Guide(KernelGuide("z", {"x": 32, "y": 4}, registers=64), {"out": KernelGuide(threads={"y": 8})})
    assert guide.of("out") == KernelGuide("z", {"x": 32, "y": 8}, registers=64)
    assert guide.of("rows") == guide.every


def test_one_step_of_a_streaming_kernel() -> None:
    kernel = KernelGuide("z", {"y": 8, "x": 32}, {"z": 64}, {"z": 2, "y": 2})
    assert kernel.of_step("z") == KernelGuide(threads={"y": 8, "x": 32, "z": 1}, points={"y": 2, "z": 2})
    assert kernel.rows_of_step("z") == 2 and kernel.steps("z", 2) == 32
    assert KernelGuide("z").rows_of_step("z") is None and KernelGuide("z").steps("z", 4) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KernelGuide(threads={"x": 0}), "threads of 'x' is 0: give a whole number"),
        (lambda: KernelGuide(points={"x": True}), "points of 'x' is True"),
        (lambda: KernelGuide(threads=32), "threads is 32: give numbers by dimension"),  # type: ignore[arg-type]
        (lambda: KernelGuide(occupancy=0), "occupancy is 0: give a share"),
        (lambda: KernelGuide(occupancy=1.5), "at most 1"),
        (lambda: KernelGuide(registers=256), "registers is 256: give the most registers of a thread, 32 to 255"),
        (lambda: KernelGuide(points={"x": 4}, unroll={"x": 2}), "points of 'x' are 4, but 2 are unrolled"),
        (lambda: KernelGuide("z", points={"z": 9}, unroll={"z": 2}), "give a multiple"),
        (lambda: KernelGuide(""), "stream is ''"),
        (lambda: Guide(memory={"u": "cache"}), "choose shared, registers, global, inline"),  # type: ignore[dict-item]
        (lambda: Guide(fuse=(("u",),)), "at least two Funcs"),
        (lambda: Guide(kernels={"u": {}}), "give a KernelGuide"),  # type: ignore[dict-item]
    ],
)
def test_values_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        make()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernels: {out: {thread: {x: 32}}}", "kernels.out.thread is not known"),
        ("memory: {u: cache}", "memory.u is 'cache', which is no known value"),
        ("every: {threads: {x: many}}", "every.threads.x is 'many': give a whole number"),
        ("every: {registers: 300}", "every cannot be used: registers is 300"),
        ("[", "is no YAML"),
        ("- 1", "give an object"),
        ("&a [*a]", "is no YAML: maximum recursion depth exceeded"),
        ("every: {threads: {x: 32, x: 16}}", "line 1, gives 'x' twice: keep one of them"),
        ("memory: {a: shared}\nfuse: [[a, b]]\nmemory: {}", "line 3, gives 'memory' twice"),
    ],
)
def test_files_that_are_no_guides(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "guide.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read_guide(path)
    assert str(path) in str(error.value)


def test_missing_file_and_missing_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"cannot read the guide .*: No such file"):
        read_guide(tmp_path / "none.yaml")
    (tmp_path / "guide.yaml").write_text("{}")
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(InputError, match="pip install pyyaml, or write the guide as JSON"):
        read_guide(tmp_path / "guide.yaml")
