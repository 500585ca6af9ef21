"""JSON comes back exactly as it went, and whatever is wrong with a file is said with its place and a way out."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import Func, Input, Param, Pipeline, RDom, Var, float32, int32
from autosched.analysis.bind import bind
from autosched.analysis.bound import BoundPipeline
from autosched.apps.registry import load_apps
from autosched.errors import AutoschedError, InputError, ScheduleError
from autosched.schedule.serialise import from_json, load_schedule, save_schedule, to_json
from autosched.schedule.types import (
    At,
    Inlined,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Member,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from autosched.search.roots import schedule_roots
from autosched.target import get_target

Edit = Callable[[dict[str, Any]], object]
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
                Member(
                    (
                        StageTiling(TOTAL, (Loop("x", LoopKind.SERIAL, 1),)),
                        StageTiling(StageId("total", 1), (Loop("r.k", LoopKind.REDUCTION, 5),)),
                    ),
                    At(Level.THREAD, OUT, 2),
                    ("y", "x"),
                ),
            ),
            (Inlined("blur", 5), Inlined("img_clamped", 11)),
        ),
    ),
)


@st.composite
def tilings(draw: st.DrawFn, func: str, numbers: st.SearchStrategy[int] | None = None) -> StageTiling:
    stages = BOUND.funcs[func].stages
    number = draw(numbers if numbers is not None else st.integers(0, len(stages) - 1))
    dims = st.sampled_from([d.name for d in stages[number].loops])
    extents = st.integers(1, 64) | st.integers(1, 2**31 - 1)
    loops = draw(st.lists(st.builds(Loop, dims, st.sampled_from(LoopKind), extents), max_size=6))
    while StageTiling(StageId(func), tuple(loops)) and _points(loops) >= 2**63:
        loops.pop()
    return StageTiling(StageId(func, number), tuple(loops))


def _points(loops: list[Loop]) -> int:
    points = 1
    for p in loops:
        points *= p.extent
    return points


@st.composite
def members(draw: st.DrawFn) -> Member:
    func = draw(st.sampled_from(list(BOUND.funcs)))
    host = draw(tilings(draw(st.sampled_from(list(BOUND.funcs))))).stage
    level = draw(st.sampled_from((Level.BLOCK, Level.STREAM, Level.WARP, Level.THREAD)))
    at = At(level, host, draw(st.integers(0, 2**31 - 1)))
    order = draw(st.permutations(BOUND.funcs[func].dims))
    return Member(tuple(draw(st.lists(tilings(func), min_size=1, max_size=2))), at, tuple(order), draw(st.booleans()))


FUNCS = st.sampled_from(list(BOUND.funcs))
KERNELS = st.builds(
    Kernel,
    st.lists(st.builds(Root, FUNCS.flatmap(tilings), st.booleans()), min_size=1, max_size=3).map(tuple),
    st.lists(members(), max_size=3).map(tuple),
    st.lists(st.builds(Inlined, FUNCS, st.integers(1, 2**63 - 1)), max_size=3).map(tuple),
)
SCHEDULES = st.builds(Schedule, st.just(BOUND.pipeline.hash), st.lists(KERNELS, max_size=3).map(tuple))


@given(SCHEDULES)
@settings(max_examples=150, deadline=None)
def test_round_trip(schedule: Schedule) -> None:
    assert from_json(to_json(BOUND, schedule), BOUND) == schedule


@pytest.mark.parametrize("name", list(load_apps()))
@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_round_trip_of_the_suite(name: str, target: str, tmp_path: Path) -> None:
    app = load_apps()[name]
    bound = bind(app.build(), app.shapes())
    schedule = schedule_roots(bound, get_target(target))
    save_schedule(tmp_path / "s.json", bound, schedule)
    assert load_schedule(tmp_path / "s.json", bound) == schedule


def test_the_text_is_meant_to_be_edited() -> None:
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


# What is wrong with the first kernel, as a change of the document, and what is said about it.
KERNEL_ERRORS: dict[str, tuple[Edit, str]] = {
    "unknown func": (lambda k: k["roots"][0].update(func="outt"), "roots[0].func is 'outt', which is no Func of "),
    "nearest func": (lambda k: k["roots"][0].update(func="outt"), "did you mean 'out'?"),
    "func of another type": (lambda k: k["roots"][0].update(func=["out"]), "roots[0].func is ['out']: give a text"),
    "unknown stage": (lambda k: k["roots"][0].update(number=1), "roots[0].number is 1: give a whole number from 0 to 0"),
    "unknown dimension": (
        lambda k: k["roots"][0]["loops"][1].update(dim="z"),
        "roots[0].loops[1].dim is 'z', which is no dimension of stage out: There is y, x",
    ),
    "dimension of another stage": (
        lambda k: k["members"][0]["stages"][0]["loops"][0].update(dim="r.k"),
        "members[0].stages[0].loops[0].dim is 'r.k', which is no dimension of stage total: There is y, x",
    ),
    "unknown kind": (
        lambda k: k["roots"][0]["loops"][1].update(kind="vector"),
        "roots[0].loops[1].kind is 'vector', which is no kind of loop: There is block, thread, serial, reduction",
    ),
    "no iterations": (
        lambda k: k["roots"][0]["loops"][0].update(extent=0),
        "roots[0].loops[0].extent is 0: give a whole number from 1 to 2147483647",
    ),
    "negative extent": (lambda k: k["roots"][0]["loops"][0].update(extent=-4), "roots[0].loops[0].extent is -4: give"),
    "absurd extent": (
        lambda k: k["roots"][0]["loops"][0].update(extent=2**31),
        "roots[0].loops[0].extent is 2147483648: give a whole number from 1 to 2147483647",
    ),
    "float extent": (lambda k: k["roots"][0]["loops"][0].update(extent=4.0), "loops[0].extent is 4.0: give a whole"),
    "boolean extent": (lambda k: k["roots"][0]["loops"][0].update(extent=True), "loops[0].extent is true: give a whole"),
    "no extent": (lambda k: k["roots"][0]["loops"][0].update(extent=None), "loops[0].extent is null: give a whole"),
    "uncountable points": (
        lambda k: k["roots"][0].update(loops=[{"dim": "y", "kind": "serial", "extent": 2**30}] * 3),
        f"roots[0].loops has {2**90} iterations in all",
    ),
    "loops of another type": (lambda k: k["roots"][0].update(loops={}), "roots[0].loops is {}: give a list [...]"),
    "loop of another type": (
        lambda k: k["roots"][0]["loops"].__setitem__(0, "y"),
        "roots[0].loops[0] is 'y': give an object {...}",
    ),
    "flag of another type": (lambda k: k["roots"][0].update(stored=1), "roots[0].stored is 1: give true or false"),
    "unknown key": (
        lambda k: k["roots"][0].update(store=True),
        "roots[0] has an unknown key 'store': did you mean 'stored'? There is func, number, stored, loops",
    ),
    "missing key": (
        lambda k: k["members"][0].pop("storage_order"),
        "members[0] lacks the key 'storage_order': it needs func, at, storage_order, stored, stages",
    ),
    "no roots": (lambda k: k.update(roots=[]), "roots is empty: a kernel computes at least one stage"),
    "no stages": (lambda k: k["members"][0].update(stages=[]), "members[0].stages is empty: a Member computes"),
    "negative depth": (
        lambda k: k["members"][0]["at"].update(depth=-1),
        "members[0].at.depth is -1: give a whole number from 0 to 2147483647",
    ),
    "level of no Member": (
        lambda k: k["members"][0]["at"].update(level="root"),
        "members[0].at.level is 'root', which is no level of a Member: There is block, stream, warp, thread",
    ),
    "upper case": (lambda k: k["members"][0]["at"].update(level="BLOCK"), "members[0].at.level is 'BLOCK', which is no"),
    "unknown host": (lambda k: k["members"][0]["at"]["host"].update(func="img"), "members[0].at.host.func is 'img'"),
    "incomplete storage order": (
        lambda k: k["members"][0].update(storage_order=["x"]),
        "members[0].storage_order is ['x']: give every dimension of 'total' once (y, x)",
    ),
    "repeated storage order": (
        lambda k: k["members"][0].update(storage_order=["x", "x"]),
        "members[0].storage_order is ['x', 'x']: give every dimension of 'total' once (y, x)",
    ),
    "unknown inlined": (lambda k: k["inlined"][1].update(func="blurr"), "inlined[1].func is 'blurr', which is no Func"),
    "no calls": (lambda k: k["inlined"][0].update(calls=0), "inlined[0].calls is 0: give a whole number from 1 to "),
}
TOP_ERRORS: dict[str, tuple[Edit, str]] = {
    "another format": (lambda d: d.update(format="weights"), 'the file is no schedule: one starts with "format": "auto'),
    "no format": (lambda d: d.pop("format"), "the file is no schedule"),
    "no version": (lambda d: d.pop("version"), "the file lacks its version: this release reads version 1; make a new"),
    "newer version": (lambda d: d.update(version=2), "is a schedule of version 2, and this release reads version 1: use"),
    "version of another type": (lambda d: d.update(version="1"), "version is '1': give a whole number"),
    "unknown key": (lambda d: d.update(comment="fast"), "the file has an unknown key 'comment'"),
    "missing key": (lambda d: d.pop("kernels"), "the file lacks the key 'kernels'"),
    "kernels of another type": (lambda d: d.update(kernels=None), "kernels is null: give a list [...]"),
    "unknown input": (lambda d: d["shapes"].update(image=[1]), "shapes has an unknown key 'image': did you mean 'img'?"),
    "wrong rank": (lambda d: d.update(shapes={"img": [70]}), "shapes.img has 1 extents: input 'img' has 2 dimensions"),
    "impossible shape": (lambda d: d.update(shapes={"img": [0, 70]}), "shapes.img[0] is 0: give a whole number"),
    "missing parameter": (lambda d: d.update(params={}), "params lacks the key 'shift'"),
    "parameter of another type": (lambda d: d.update(params={"shift": 1.5}), "params.shift is 1.5: give a whole number"),
}


@pytest.mark.parametrize("case", KERNEL_ERRORS)
def test_errors_in_a_kernel_name_their_place(case: str) -> None:
    edit, message = KERNEL_ERRORS[case]
    document = json.loads(to_json(BOUND, SCHEDULE))
    edit(document["kernels"][0])
    with pytest.raises(ScheduleError, match=re.escape(message)) as caught:
        from_json(json.dumps(document), BOUND, "s.json")
    assert str(caught.value).startswith("s.json: kernels[0].")


@pytest.mark.parametrize("case", TOP_ERRORS)
def test_errors_at_the_top(case: str) -> None:
    edit, message = TOP_ERRORS[case]
    document = json.loads(to_json(BOUND, SCHEDULE))
    edit(document)
    with pytest.raises(ScheduleError, match=re.escape(message)) as caught:
        from_json(json.dumps(document), BOUND, "s.json")
    assert str(caught.value).startswith("s.json: ")


def test_a_repeated_key_is_refused() -> None:
    text = to_json(BOUND, SCHEDULE).replace('"depth": 2', '"depth": 1, "depth": 2')
    with pytest.raises(ScheduleError, match=re.escape("kernels[0].members[0].at gives 'depth' twice: keep one")):
        from_json(text, BOUND)


def test_the_file_of_another_pipeline() -> None:
    renamed, changed = bind(make_pipeline("other", 3.0), {"img": (30, 70)}), bind(make_pipeline(scale=3.0), BOUND.shapes)
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
def test_what_is_no_json(text: str, message: str) -> None:
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


def test_a_member_of_two_funcs_is_not_written() -> None:
    (kernel,) = SCHEDULE.kernels
    mixed = Member((StageTiling(TOTAL, ()), StageTiling(OUT, ())), At(Level.BLOCK, OUT, 1), ("y", "x"))
    with pytest.raises(ScheduleError, match="a Member has stages of out and total; it needs those of one"):
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
    with pytest.raises(InputError, match=re.escape(f"cannot write the schedule to {path}: No space left on device; cho")):
        save_schedule(path, BOUND, SCHEDULE)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["s.json"]


@pytest.mark.parametrize("place", ["missing/s.json", "", ".", "file/s.json", "nul\0.json"])
def test_paths_that_cannot_be_written(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write the schedule to .*; choose another path"):
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
