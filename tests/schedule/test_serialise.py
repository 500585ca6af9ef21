"""JSON of schedules: round trips, and errors with their path and a way out."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import Func, Input, Param, Pipeline, RDom, Var, float32, int32
from autosched.analysis.bind import bind
from autosched.apps.registry import load_apps
from autosched.errors import AutoschedError, InputError, ScheduleError
from autosched.schedule.io.serialise import from_json, load_schedule, save_schedule, to_json
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
    TileAlignment,
)
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.stage_limits import short_app

y, x = Var("y"), Var("x")


def make_pipeline(name: str = "small", scale: float = 2.0) -> Pipeline:
    """A clamped input, a blur, a window sum with an update, and a shift by a parameter."""
    img, shift = Input("img", float32, 2), Param("shift", int32, default=1)
    clamped = img.clamped()
    blur, total, out = Func("blur"), Func("total"), Func("out")
    r = RDom("r", k=(0, 5))
    blur[y, x] = clamped[y, x - 1] + clamped[y, x + 1]
    total[y, x] = 0.0
    total[y, x] += blur[y, x + r.k]
    out[y, x] = total[y, x] * scale + clamped[y + shift, x]
    return Pipeline(out.over(y=(0, img.shape[0]), x=(0, img.shape[1])), name=name)


BOUND = bind(make_pipeline(), {"img": (30, 70)})
TOTAL, OUT = StageId("total"), StageId("out")
SCHEDULE = Schedule(
    BOUND.pipeline.hash,
    (
        Kernel(
            (Root(StageTiling(OUT, (Loop("y", LoopKind.BLOCK, 30), Loop("x", LoopKind.THREAD, 70)))),),
            (
                FusedProducer(
                    (
                        StageTiling(TOTAL, (Loop("x", LoopKind.SERIAL, 1),)),
                        StageTiling(StageId("total", 1), (Loop("r.k", LoopKind.REDUCTION, 5),)),
                    ),
                    ComputeAt(Level.THREAD, OUT, 2),
                    ("y", "x"),
                ),
            ),
            (Inlined("blur", 5), Inlined("img_clamped", 11)),
        ),
    ),
)


def _points(loops: Iterable[Loop]) -> int:
    return math.prod(p.extent for p in loops)


@st.composite
def tilings(draw: st.DrawFn, func: str) -> StageTiling:
    """Loops of a stage in any number and order, with up to 2**63 - 1 iterations."""
    number = draw(st.integers(0, len(BOUND.funcs[func].stages) - 1))
    dims = st.sampled_from([d.name for d in BOUND.stage(func, number).loops])
    extents = st.integers(1, 64) | st.integers(1, 2**41 - 1)
    loops = draw(st.lists(st.builds(Loop, dims, st.sampled_from(LoopKind), extents), max_size=4))
    while _points(loops) >= 2**63:
        loops.pop()
    return StageTiling(StageId(func, number), tuple(loops))


@st.composite
def members(draw: st.DrawFn) -> FusedProducer:
    func = draw(st.sampled_from(list(BOUND.funcs)))
    host = draw(tilings(draw(st.sampled_from(list(BOUND.funcs))))).stage
    level = draw(st.sampled_from((Level.BLOCK, Level.MAINLOOP, Level.WARP, Level.THREAD)))
    at = ComputeAt(level, host, draw(st.integers(0, 2**41 - 1)))
    order = draw(st.permutations(BOUND.funcs[func].dims))
    stages = tuple(draw(st.lists(tilings(func), min_size=1, max_size=2)))
    aligned = draw(
        st.none() | st.integers(1, 64).flatmap(lambda n: st.builds(TileAlignment, st.just(n), st.integers(0, n - 1)))
    )
    return FusedProducer(stages, at, tuple(order), draw(st.booleans()), aligned)


FUNCS = st.sampled_from(list(BOUND.funcs))
KERNELS = st.builds(
    Kernel,
    st.lists(st.builds(Root, FUNCS.flatmap(tilings), st.booleans()), min_size=1, max_size=2).map(tuple),
    st.lists(members(), max_size=2).map(tuple),
    st.lists(st.builds(Inlined, FUNCS, st.integers(1, 2**63 - 1)), max_size=3).map(tuple),
)
SCHEDULES = st.builds(Schedule, st.just(BOUND.pipeline.hash), st.lists(KERNELS, max_size=2).map(tuple))


@given(SCHEDULES)
@settings(max_examples=60, deadline=None)
def test_round_trip(schedule: Schedule) -> None:
    assert from_json(to_json(BOUND, schedule), BOUND) == schedule


@pytest.mark.parametrize("name", list(load_apps()))
def test_round_trip_of_the_suite(name: str, tmp_path: Path) -> None:
    bound, h200 = short_app(name), get_target("h200")
    sampled = [sample_schedule(bound, h200, np.random.default_rng(seed), varied=seed > 1) for seed in range(4)]
    for schedule in (schedule_roots(bound, h200), *sampled):
        save_schedule(tmp_path / "s.json", bound, schedule)
        assert load_schedule(tmp_path / "s.json", bound) == schedule


def test_the_text_is_readable() -> None:
    text = to_json(BOUND, SCHEDULE)
    top = json.loads(text)
    assert list(top) == ["format", "version", "pipeline", "name", "shapes", "params", "kernels"]
    assert (top["format"], top["version"], top["name"]) == ("autosched-schedule", 1, "small")
    assert (top["shapes"], top["params"]) == ({"img": [30, 70]}, {"shift": 1})
    assert max(map(len, text.splitlines())) <= 110
    assert '\n            {"dim": "y", "kind": "block", "extent": 30},\n' in text
    assert '"at": {"level": "thread", "host": {"func": "out", "number": 0}, "depth": 2}' in text


def test_names_may_be_anything_python_allows() -> None:
    höhe, out = Var("höhe"), Func("größe")
    out[höhe] = Input("bild", float32, 1)[höhe]
    bound = bind(Pipeline(out), {"bild": (10,)})
    schedule = schedule_roots(bound, get_target("h200"))
    assert from_json(to_json(bound, schedule), bound) == schedule


def test_a_schedule_made_for_other_shapes_can_be_read() -> None:
    other = bind(make_pipeline(), {"img": (8, 9)}, {"shift": 3})
    assert from_json(to_json(BOUND, SCHEDULE), other) == SCHEDULE


# A path in the first kernel, the value put there, and the error message after the path.
WRONG_IN_KERNEL = [
    ("roots", [], "is empty: a kernel computes at least one stage"),
    (
        "roots[0].func",
        "outt",
        "is 'outt', which is no Func of pipeline 'small': did you mean 'out'? There is img_clamped",
    ),
    ("roots[0].func", ["out"], "is ['out']: give a text"),
    ("roots[0].number", 1, "is 1: give a whole number from 0 to 0"),
    ("roots[0].stored", 1, "is 1: give true or false"),
    ("roots[0].loops", {}, "is {}: give a list [...]"),
    ("roots[0].loops", [{"dim": "y", "kind": "serial", "extent": 2**30}] * 3, f"has {2**90} iterations in all"),
    ("roots[0].loops[0]", "y", "is 'y': give an object {...}"),
    ("roots[0].loops[1].dim", "z", "is 'z', which is no dimension of stage out: There is y, x"),
    (
        "roots[0].loops[1].kind",
        "vector",
        "is 'vector', which is no kind of loop: There is block, warp, thread, serial, red",
    ),
    ("roots[0].loops[0].extent", 0, "is 0: give a whole number from 1 to 2199023255551"),
    ("roots[0].loops[0].extent", -4, "is -4: give a whole number from 1 to 2199023255551"),
    ("roots[0].loops[0].extent", 2**41, "is 2199023255552: give a whole number from 1 to 2199023255551"),
    ("roots[0].loops[0].extent", 4.0, "is 4.0: give a whole number"),
    ("roots[0].loops[0].extent", True, "is true: give a whole number"),
    ("roots[0].loops[0].extent", None, "is null: give a whole number"),
    ("members[0].stages", [], "is empty: a fused producer has at least one stage"),
    ("members[0].stages[0].loops[0].dim", "r.k", "is 'r.k', which is no dimension of stage total: There is y, x"),
    ("members[0].at.depth", -1, "is -1: give a whole number from 0 to 2199023255551"),
    (
        "members[0].at.level",
        "root",
        "is 'root', which is no level of a fused producer: There is block, stream, warp, thread",
    ),
    ("members[0].at.level", "BLOCK", "is 'BLOCK', which is no level of a fused producer"),
    ("members[0].at.host.func", "img", "is 'img', which is no Func of pipeline 'small'"),
    ("members[0].storage_order", ["x"], "is ['x']: give every dimension of 'total' once (y, x)"),
    ("members[0].storage_order", ["x", "x"], "is ['x', 'x']: give every dimension of 'total' once (y, x)"),
    ("inlined[1].func", "blurr", "is 'blurr', which is no Func of pipeline 'small': did you mean 'blur'?"),
    ("inlined[0].calls", 0, "is 0: give a whole number from 1 to 9223372036854775807"),
]
WRONG_AT_TOP = [
    ("version", "1", "version is '1': give a whole number"),
    ("version", 2, "the file is a schedule of version 2, and this release reads version 1: use the release that wrote"),
    ("format", "weights", 'the file is no schedule: one starts with "format": "autosched-schedule"; make a new one'),
    ("pipeline", "harris", "pipeline is no pipeline's hash, which has 64 hexadecimal digits; make a new one"),
    ("name", 7, "name is 7: give a text"),
    ("kernels", None, "kernels is null: give a list [...]"),
    ("comment", "fast", "the file has an unknown key 'comment': There is format, version, pipeline, name, shapes"),
    (
        "kernels[0].roots[0].store",
        1,
        "kernels[0].roots[0] has an unknown key 'store': did you mean 'stored'? There is ",
    ),
    ("shapes.image", [1], "shapes has an unknown key 'image': did you mean 'img'? There is img"),
    ("shapes.img", [70], "shapes.img has 1 extents: input 'img' has 2 dimensions"),
    ("shapes.img[0]", -1, "shapes.img[0] is -1: give a whole number"),
    ("params.shift", 1.5, "params.shift is 1.5: give a whole number"),
]
MISSING = [
    ("format", "the file is no schedule: one starts with"),
    ("version", "the file lacks its version: this release reads version 1; make a new one"),
    ("kernels", "the file lacks the key 'kernels': it needs format, version, pipeline, name, shapes, params, kernels"),
    ("params.shift", "params lacks the key 'shift': it needs shift"),
    ("kernels[0].members[0].at.host", "kernels[0].members[0].at lacks the key 'host': it needs level, host, depth"),
]


def _parent(document: Any, path: str) -> tuple[Any, Any]:
    """Return the container of the value at a path, and its key or index."""
    *way, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)]
    for step in way:
        document = document[step]
    return document, last


def _refusal(document: Any) -> str:
    with pytest.raises(ScheduleError) as caught:
        from_json(json.dumps(document), BOUND, "s.json")
    return str(caught.value)


@pytest.mark.parametrize(("path", "value", "said"), WRONG_IN_KERNEL)
def test_wrong_values_are_named_by_their_path(path: str, value: object, said: str) -> None:
    document = json.loads(to_json(BOUND, SCHEDULE))
    parent, last = _parent(document, f"kernels[0].{path}")
    parent[last] = value
    assert _refusal(document).startswith(f"s.json: kernels[0].{path} {said}")


@pytest.mark.parametrize(("path", "value", "said"), WRONG_AT_TOP)
def test_wrong_documents(path: str, value: object, said: str) -> None:
    document = json.loads(to_json(BOUND, SCHEDULE))
    parent, last = _parent(document, path)
    parent[last] = value
    assert _refusal(document).startswith(f"s.json: {said}")


@pytest.mark.parametrize(("path", "said"), MISSING)
def test_missing_keys(path: str, said: str) -> None:
    document = json.loads(to_json(BOUND, SCHEDULE))
    parent, last = _parent(document, path)
    del parent[last]
    assert _refusal(document).startswith(f"s.json: {said}")


def test_a_repeated_key_is_refused() -> None:
    text = to_json(BOUND, SCHEDULE).replace('"depth": 2', '"depth": 1, "depth": 2')
    with pytest.raises(ScheduleError, match=re.escape("kernels[0].members[0].at gives 'depth' twice: keep one")):
        from_json(text, BOUND)


def test_the_file_of_another_pipeline() -> None:
    renamed = bind(make_pipeline("other", 3.0), BOUND.shapes)
    changed = bind(make_pipeline(scale=3.0), BOUND.shapes)
    for bound, message in [
        (renamed, f"made for pipeline 'small' ({BOUND.pipeline.hash[:12]}), not for 'other' ("),
        (changed, "whose definition has changed since; make a new one with autosched.schedule()"),
    ]:
        with pytest.raises(ScheduleError, match=re.escape(message)):
            from_json(to_json(BOUND, SCHEDULE), bound)
        with pytest.raises(ScheduleError, match="made for pipeline"):
            to_json(bound, SCHEDULE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 column 1: Expecting value"),
        ('{"format": "autosched-schedule",\n "version": 1', "line 2 column 14: Expecting ',' delimiter"),
        ("[1, 2", "line 1 column 6"),
        ("{'format': 1}", "line 1 column 2"),
        ("[" * 100_000, "nested too deeply"),
        (f'{{"version": {"9" * 5000}}}', "a number is too long"),
    ],
    ids=["empty", "truncated object", "truncated list", "python", "deep", "digits"],
)
def test_invalid_json(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"s.json is no JSON: {message}")):
        from_json(text, BOUND, "s.json")


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_every_truncation_is_an_error(data: st.DataObject) -> None:
    text = to_json(BOUND, SCHEDULE).rstrip()
    with pytest.raises(InputError, match=r"line \d+ column \d+"):
        from_json(text[: data.draw(st.integers(0, len(text) - 1))], BOUND)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for k, v in children for p in _places(v, (*path, k)))]


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_document_is_read_or_refused_with_a_reason(data: st.DataObject) -> None:
    document = {"top": json.loads(to_json(BOUND, SCHEDULE))}
    *way, last = data.draw(st.sampled_from(_places(document)[1:]))
    parent: Any = document
    for step in way:
        parent = parent[step]
    parent[last] = data.draw(JSON_VALUES)
    text = json.dumps(document["top"])
    try:
        found = from_json(text, BOUND)
    except AutoschedError:
        return
    assert from_json(to_json(BOUND, found), BOUND) == found


def test_a_fused_producer_of_two_funcs_is_not_written() -> None:
    (kernel,) = SCHEDULE.kernels
    mixed = FusedProducer((StageTiling(TOTAL, ()), StageTiling(OUT, ())), ComputeAt(Level.BLOCK, OUT, 1), ("y", "x"))
    with pytest.raises(ScheduleError, match="a fused producer has stages of out and total; it needs those of one Func"):
        to_json(BOUND, Schedule(BOUND.pipeline.hash, (Kernel(kernel.roots, (mixed,)),)))


def test_saving_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text("old")
    save_schedule(path, BOUND, SCHEDULE)
    assert load_schedule(str(path), BOUND) == SCHEDULE
    assert os.listdir(tmp_path) == ["s.json"]


def test_a_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "s.json"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match=re.escape(f"write the schedule to {path}: No space left on device; choose")):
        save_schedule(path, BOUND, SCHEDULE)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["s.json"]


@pytest.mark.parametrize("place", ["missing/s.json", "", ".", "file/s.json", "nul\0.json"])
def test_paths_that_cannot_be_written(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write the schedule to .*; choose another path"):
        save_schedule(place, BOUND, SCHEDULE)
    assert os.listdir(tmp_path) == ["file"]


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="it exists and is no file"):
        save_schedule(pipe, BOUND, SCHEDULE)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("place", ["missing.json", ".", "nul\0.json"])
def test_paths_that_cannot_be_read(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"cannot read the schedule .*; make a new one with autosched.schedule\(\)"):
        load_schedule(place, BOUND)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe", "is no JSON: byte 0 is not UTF-8"), (b" " * (2**26 + 1), "has more than 64 MiB")],
    ids=["binary", "huge"],
)
def test_files_that_hold_no_schedule(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"{path} {message}")):
        load_schedule(path, BOUND)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(to_json(BOUND, SCHEDULE).replace('"extent": 30', '"extent": 0'))
    with pytest.raises(ScheduleError, match=re.escape(f"{path}: kernels[0].roots[0].loops[0].extent is 0: give")):
        load_schedule(path, BOUND)
