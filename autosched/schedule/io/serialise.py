"""Schedules as JSON, the form in which they are stored and exchanged; read strictly, as data."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline, HorizontalFusion, RFactor
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.atomic_files import replacement_of
from autosched.errors import InputError, ScheduleError
from autosched.schedule.io.strict_json import Node, indented, parse
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

FORMAT = "autosched-schedule"
VERSION = 1
"""Raised whenever a file of the last version would be misread."""

LARGEST_EXTENT = (1 << 41) - 1
LARGEST_COUNT = (1 << 63) - 1
LARGEST_FILE = 1 << 26

_LEVELS = {level.key: level for level in (Level.BLOCK, Level.MAINLOOP, Level.WARP, Level.THREAD)}
_KINDS = {kind.value: kind for kind in LoopKind}
_REMAKE = "make a new one with autosched.schedule() or `autosched schedule`"


def to_json(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return a schedule as JSON text that `from_json` reads back exactly.

    Raises:
        ScheduleError: If the schedule belongs to another pipeline, or a Member has no stages or those of two Funcs.
    """
    return indented(to_document(bound, schedule))


def to_document(bound: BoundPipeline, schedule: Schedule) -> dict[str, object]:
    """Return what `to_json` writes.

    Raises:
        ScheduleError: As `to_json` does.
    """
    bound = bound.root_pipeline
    if schedule.pipeline_hash != bound.pipeline.hash:
        raise ScheduleError(_other_pipeline("this schedule", schedule.pipeline_hash, "", bound))
    return {
        "format": FORMAT,
        "version": VERSION,
        "pipeline": schedule.pipeline_hash,
        "name": bound.pipeline.name,
        "shapes": {name: list(i.shape) for name, i in bound.inputs.items()},
        "params": {name: v if isinstance(v, bool) else int(v) for name, v in bound.specialised.items()},
        **({"splits": [_write_split(s) for s in schedule.rfactors]} if schedule.rfactors else {}),
        **({"joins": [list(j.funcs) for j in schedule.fusions]} if schedule.fusions else {}),
        "kernels": [_write_kernel(k) for k in schedule.kernels],
    }


def from_json(text: str, bound: BoundPipeline, source: str = "schedule") -> Schedule:
    """Return the schedule in a JSON text.

    Names, types and sizes are checked here; whether it is legal for shapes and target is for `validate` to say, so
    that a schedule made for other shapes can be tried.

    Args:
        text: The JSON text.
        bound: The pipeline it must belong to.
        source: What to call the text in messages (a file's path).

    Raises:
        InputError: If the text is no JSON, with line and column.
        ScheduleError: If it is no schedule, of another version or pipeline, or a value is wrong, with its place.
    """
    return _Reader(bound).schedule(parse(text, source))


def save_schedule(path: str | os.PathLike[str], bound: BoundPipeline, schedule: Schedule) -> None:
    """Write a schedule to a file; a reader sees the old file or the new one, never half of one.

    Raises:
        ScheduleError: As `to_json`.
        InputError: If the path cannot be written.
    """
    content = to_json(bound, schedule).encode()
    try:
        file = Path(path)
        if file.exists() and not file.is_file():
            raise OSError("it exists and is no file")  # renaming over a device would replace the device
        with replacement_of(file) as beside:
            beside.write_bytes(content)
    except (OSError, ValueError) as e:
        raise InputError(f"cannot write the schedule to {path}: {_reason(e)}; choose another path") from e


def load_schedule(path: str | os.PathLike[str], bound: BoundPipeline) -> Schedule:
    """Return the schedule in a file; see `from_json`.

    Raises:
        InputError: If the file cannot be read or is no JSON.
        ScheduleError: If it is no schedule of this pipeline, or a value is wrong.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise InputError(f"{path} is no JSON: byte {e.start} is not UTF-8; name a file that save_schedule wrote") from e
    except (OSError, ValueError) as e:
        raise InputError(f"cannot read the schedule {path}: {_reason(e)}; {_REMAKE}") from e
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path} has more than {LARGEST_FILE >> 20} MiB, so it is no schedule; {_REMAKE}")
    return from_json(text, bound, str(path))


def _reason(e: OSError | ValueError) -> str:
    return (e.strerror if isinstance(e, OSError) else None) or str(e)


def _other_pipeline(what: str, found: str, name: str, bound: BoundPipeline) -> str:
    own = bound.pipeline
    other = f"{name!r} ({found[:12]})" if name else found[:12]
    changed = ", whose definition has changed since" if name == own.name else ""
    return f"{what} was made for pipeline {other}, not for {own.name!r} ({own.hash[:12]}){changed}; {_REMAKE}"


def _write_split(s: RFactor) -> dict[str, Any]:
    atomic = {"atomic": True} if s.atomic else {}
    return {"func": s.func, "stage": s.stage, "loops": dict(s.loops), **atomic}


def _write_kernel(k: Kernel) -> dict[str, Any]:
    return {
        "roots": [_write_root(r) for r in k.roots],
        "members": [_write_member(m) for m in k.fused],
        "inlined": [{"func": i.func, "calls": i.calls} for i in k.inlined],
    }


def _write_root(r: Root) -> dict[str, Any]:
    return {**_write_stage(r.tiling.stage), "stored": r.materialised, "loops": _write_loops(r.tiling)}


def _write_member(m: FusedProducer) -> dict[str, Any]:
    funcs = {t.stage.func for t in m.tilings}
    if len(funcs) != 1:
        raise ScheduleError(f"a Member has stages of {' and '.join(sorted(funcs)) or 'no Func'}; it needs those of one")
    return {
        "func": m.func,
        "at": {"level": m.at.level.key, "host": _write_stage(m.at.host), "depth": m.at.depth},
        "storage_order": list(m.storage_order),
        "stored": m.materialised,
        **({} if m.aligned is None else {"aligned": m.aligned._asdict()}),
        **({} if m.buffers == 1 else {"buffers": m.buffers}),
        **({"asynchronous": True} if m.asynchronous else {}),
        "stages": [{"number": t.stage.number, "loops": _write_loops(t)} for t in m.tilings],
    }


def _write_stage(s: StageId) -> dict[str, Any]:
    return {"func": s.func, "number": s.number}


def _write_loops(t: StageTiling) -> list[dict[str, Any]]:
    return [{"dim": p.dim, "kind": p.kind.value, "extent": p.extent} for p in t.loops]


class _Reader:
    """Reads a document from the top down; the pipeline says which names there are."""

    def __init__(self, bound: BoundPipeline) -> None:
        self.bound = bound.root_pipeline
        self.funcs = {name: name for name in self.bound.funcs}

    def schedule(self, top: Node) -> Schedule:
        self._check_version(top)
        keys = ["format", "version", "pipeline", "name", "shapes", "params", "kernels"]
        rewrites = [key for key in ("splits", "joins") if key in top.mapping()]
        _, _, pipeline, name, shapes, params, kernels, *rest = top.fields(*keys, *rewrites)
        found, made_for = pipeline.text(), name.text()
        if not re.fullmatch("[0-9a-f]{64}", found):
            raise pipeline.error("is no pipeline's hash, which has 64 hexadecimal digits; " + _REMAKE)
        if found != self.bound.pipeline.hash:
            raise ScheduleError(_other_pipeline(top.source, found, made_for, self.bound))
        self._check_problem(shapes, params)
        given = dict(zip(rewrites, rest, strict=True))
        splits = tuple(self._split(s) for s in given["splits"].items()) if "splits" in given else ()
        joins = tuple(self._join(j) for j in given["joins"].items()) if "joins" in given else ()
        return Schedule(found, tuple(self._kernel(k) for k in kernels.items()), splits, joins)

    def _split(self, node: Node) -> RFactor:
        """Read one split, after which there are more names."""
        extra = ["atomic"] if "atomic" in node.mapping() else []
        func, stage, loops, *rest = node.fields("func", "stage", "loops", *extra)
        pieces = {name: value.integer(2, LARGEST_EXTENT) for name, value in loops.mapping().items()}
        found = RFactor(
            func.choice(self.funcs, "Func of the pipeline"),
            stage.integer(1, 1 << 20),
            tuple(pieces.items()),
            atomic=rest[0].boolean() if rest else False,
        )
        problem = rfactor_error(self.bound, found)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(apply_rfactors(self.bound, (*self.bound.rfactors, found)))
        return found

    def _join(self, node: Node) -> HorizontalFusion:
        """Read one join, after which there are other names."""
        found = HorizontalFusion(tuple(name.choice(self.funcs, "Func of the pipeline") for name in node.items()))
        problem = fusion_error(self.bound, found)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(fuse_outputs(self.bound, (*self.bound.fusions, found)))
        return found

    def _continue_with(self, bound: BoundPipeline) -> None:
        self.bound = bound
        self.funcs = {name: name for name in bound.funcs}

    def _check_version(self, top: Node) -> None:
        """Tell another format or version apart first: all else may differ there."""
        found = top.mapping()
        if "format" not in found or found["format"].value != FORMAT:
            raise top.error(f'is no schedule: one starts with "format": "{FORMAT}"; {_REMAKE}')
        if "version" not in found:
            raise top.error(f"lacks its version: this release reads version {VERSION}; {_REMAKE}")
        version = found["version"].integer(1, LARGEST_COUNT)
        if version != VERSION:
            raise top.error(
                f"is a schedule of version {version}, and this release reads version {VERSION}: "
                f"use the release that wrote it, or {_REMAKE}"
            )

    def _check_problem(self, shapes: Node, params: Node) -> None:
        """Check shapes and parameters, which are for people: a schedule may be tried on others."""
        for name, node in zip(self.bound.inputs, shapes.fields(*self.bound.inputs), strict=True):
            extents = [e.integer(0, LARGEST_COUNT) for e in node.items()]
            rank = len(self.bound.inputs[name].shape)
            if len(extents) != rank:
                raise node.error(f"has {len(extents)} extents: input {name!r} has {rank} dimensions")
        for node in params.fields(*self.bound.specialised):
            if not isinstance(node.value, bool):
                node.integer(-LARGEST_COUNT - 1, 2 * LARGEST_COUNT + 1)

    def _kernel(self, node: Node) -> Kernel:
        roots, members, inlined = node.fields("roots", "members", "inlined")
        if not roots.items():
            raise roots.error("is empty: a kernel computes at least one stage")
        return Kernel(
            tuple(self._root(r) for r in roots.items()),
            tuple(self._member(m) for m in members.items()),
            tuple(self._inlined(i) for i in inlined.items()),
        )

    def _root(self, node: Node) -> Root:
        func, number, stored, loops = node.fields("func", "number", "stored", "loops")
        return Root(self._tiling(self._stage(func, number), loops), stored.boolean())

    def _member(self, node: Node) -> FusedProducer:
        names = ("func", "at", "storage_order", "stored", "stages")
        given = node.mapping()
        columns, several, past = given.get("aligned"), given.get("buffers"), given.get("asynchronous")
        others = (n for n in ("aligned", "buffers", "asynchronous") if n in given)
        func, at, order, stored, stages, *_ = node.fields(*names, *others)
        if not stages.items():
            raise stages.error("is empty: a Member computes at least one stage")
        tilings = []
        for s in stages.items():
            number, loops = s.fields("number", "loops")
            tilings.append(self._tiling(self._stage(func, number), loops))
        aligned = None if columns is None else self._aligned(columns)
        buffers = 1 if several is None else several.integer(1, 2)
        place, dims = self._at(at), self._storage_order(func, order)
        asynchronous = past is not None and past.boolean()
        return FusedProducer(tuple(tilings), place, dims, stored.boolean(), aligned, buffers, asynchronous)

    def _aligned(self, node: Node) -> TileAlignment:
        multiple, remainder = node.fields("multiple", "remainder")
        found = multiple.integer(1, LARGEST_EXTENT)
        return TileAlignment(found, remainder.integer(0, found - 1))

    def _at(self, node: Node) -> ComputeAt:
        level, host, depth = node.fields("level", "host", "depth")
        stage = self._stage(*host.fields("func", "number"))
        return ComputeAt(level.choice(_LEVELS, "level of a Member"), stage, depth.integer(0, LARGEST_EXTENT))

    def _storage_order(self, func: Node, order: Node) -> tuple[str, ...]:
        dims = self._known(func.text()).dims
        given = tuple(d.choice({d: d for d in dims}, f"dimension of {func.text()!r}") for d in order.items())
        if sorted(given) != sorted(dims):
            raise order.error(f"is {list(given)}: give every dimension of {func.text()!r} once ({', '.join(dims)})")
        return given

    def _inlined(self, node: Node) -> Inlined:
        func, calls = node.fields("func", "calls")
        return Inlined(self._func(func), calls.integer(1, LARGEST_COUNT))

    def _func(self, node: Node) -> str:
        if isinstance(node.value, str) and cached_source(node.value) in {*self.bound.inputs, *self.bound.funcs}:
            return node.value  # the copy of a source
        return node.choice(self.funcs, f"Func of pipeline {self.bound.pipeline.name!r}")

    def _stage(self, func: Node, number: Node) -> StageId:
        name = self._func(func)
        return StageId(name, number.integer(0, len(self._known(name).stages) - 1))

    def _known(self, name: str) -> BoundFunc:
        """Return a Func of the pipeline, or the copy of one of its sources."""
        source = cached_source(name)
        return (self.bound if source is None else insert_cache_reads(self.bound, [source])).funcs[name]

    def _tiling(self, stage: StageId, node: Node) -> StageTiling:
        dims = {d.name: d.name for d in self._known(stage.func).stages[stage.number].loops}
        loops = []
        points = 1
        for p in node.items():
            dim, kind, extent = p.fields("dim", "kind", "extent")
            loops.append(
                Loop(
                    dim.choice(dims, f"dimension of stage {stage}"),
                    kind.choice(_KINDS, "kind of loop"),
                    extent.integer(1, LARGEST_EXTENT),
                )
            )
            points *= loops[-1].extent
        if points > LARGEST_COUNT:
            raise node.error(f"has {points} iterations in all, more than 64 bits can count: give smaller extents")
        return StageTiling(stage, tuple(loops))
