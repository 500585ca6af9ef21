"""Schedules as JSON, for files and exchange; reading is strict.

Some keys differ from the names of the types, so that schedule files stay valid: ``member`` is a fused producer,
``split`` an rfactor, ``join`` a horizontal fusion, ``stream`` MAINLOOP, and ``stored`` materialised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autosched.analysis.bound_pipeline import BoundFunc, BoundPipeline
from autosched.analysis.pipeline_rewrites import (
    ComponentFission,
    Deinterleaving,
    FuncClone,
    HorizontalFusion,
    IntegerNarrowing,
    InvariantHoisting,
    ReductionUnrolling,
    RFactor,
    ScanBlocking,
    StatementRewrite,
    WindowDoubling,
)
from autosched.analysis.rewrites.cache_read import cached_source, insert_cache_reads
from autosched.analysis.rewrites.component_fission import component_fission_error, split_components
from autosched.analysis.rewrites.deinterleaving import LARGEST_STRIDE, deinterleave_reads, deinterleaving_error
from autosched.analysis.rewrites.func_cloning import clone_error, clone_funcs
from autosched.analysis.rewrites.horizontal_fusion import fuse_outputs, fusion_error
from autosched.analysis.rewrites.integer_narrowing import narrow_integers, narrowing_error
from autosched.analysis.rewrites.invariant_hoisting import hoist_invariants, hoisting_error
from autosched.analysis.rewrites.reduction_unrolling import unroll_reductions, unrolling_error
from autosched.analysis.rewrites.rfactor import apply_rfactors, rfactor_error
from autosched.analysis.rewrites.scan_blocking import block_scans, scan_error
from autosched.analysis.rewrites.statement import rewrite_statements, statement_error
from autosched.analysis.rewrites.window_doubling import double_windows, window_error
from autosched.atomic_files import replacement_of
from autosched.errors import InputError, ScheduleError
from autosched.schedule.io.statement_json import (
    read_clone,
    read_fission,
    read_statement,
    write_clone,
    write_fission,
    write_statement,
)
from autosched.schedule.io.strict_json import Node, indented, parse
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    HybridTile,
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
TIME_LOOP_FORMAT = "autosched-iteration"
"""Format of files of `autosched.iteration.version_files`, which are refused with a message of their own."""
NOTES = "provenance"
"""Key of optional notes on the origin of a schedule."""
VERSION = 1
"""Incremented whenever this release would misread files of the last version."""

LARGEST_EXTENT = (1 << 41) - 1
LARGEST_COUNT = (1 << 63) - 1
LARGEST_FILE = 1 << 26
LARGEST_RESIDENT = 1 << 16

_LEVELS = {level.key: level for level in (Level.BLOCK, Level.MAINLOOP, Level.WARP, Level.THREAD)}
_KINDS = {kind.value: kind for kind in LoopKind}
_REWRITES = (
    "windows", "scans", "deinterleavings", "hoistings", "unrollings", "narrowings", "splits", "statements", "fissions",
    "joins", "clones",
)  # fmt: skip
"""Keys of the rewrites, in the order of their application."""
_REMAKE = "make a new one with autosched.schedule() or `autosched schedule`"


def to_json(bound: BoundPipeline, schedule: Schedule) -> str:
    """Return a schedule as JSON text that `from_json` reads back exactly.

    Raises:
        ScheduleError: If the schedule belongs to another pipeline, or the stages of a fused producer do not belong to
            one Func.
    """
    return indented(to_document(bound, schedule))


def to_document(bound: BoundPipeline, schedule: Schedule) -> dict[str, object]:
    """Return the JSON document of a schedule as plain data.

    Raises:
        ScheduleError: As `to_json`.
    """
    bound = bound.root_pipeline
    if schedule.pipeline_hash != bound.pipeline.hash:
        raise ScheduleError(_other_pipeline("this schedule", schedule.pipeline_hash, "", bound))
    deinterleavings, hoistings = schedule.deinterleavings, schedule.hoistings
    return {
        "format": FORMAT,
        "version": VERSION,
        "pipeline": schedule.pipeline_hash,
        "name": bound.pipeline.name,
        "shapes": {name: list(i.shape) for name, i in bound.inputs.items()},
        "params": {name: v if isinstance(v, bool) else int(v) for name, v in bound.specialised.items()},
        **({"windows": [_write_window(w) for w in schedule.windows]} if schedule.windows else {}),
        **({"scans": [_write_scan(s) for s in schedule.scans]} if schedule.scans else {}),
        **({"deinterleavings": [_write_deinterleaving(d) for d in deinterleavings]} if deinterleavings else {}),
        **({"hoistings": [{"func": h.func, "dim": h.dim} for h in hoistings]} if hoistings else {}),
        **({"unrollings": [_write_unrolling(u) for u in schedule.unrollings]} if schedule.unrollings else {}),
        **({"narrowings": [list(n.funcs) for n in schedule.narrowings]} if schedule.narrowings else {}),
        **({"splits": [_write_rfactor(s) for s in schedule.rfactors]} if schedule.rfactors else {}),
        **({"statements": [write_statement(s) for s in schedule.statements]} if schedule.statements else {}),
        **({"fissions": [write_fission(f) for f in schedule.fissions]} if schedule.fissions else {}),
        **({"joins": [list(j.funcs) for j in schedule.fusions]} if schedule.fusions else {}),
        **({"clones": [write_clone(c) for c in schedule.clones]} if schedule.clones else {}),
        "kernels": [_write_kernel(k) for k in schedule.kernels],
    }


def from_json(text: str, bound: BoundPipeline, source: str = "schedule") -> Schedule:
    """Return the schedule in a JSON text.

    Names, types and sizes are checked here. `autosched.schedule.legality.validate` checks legality for shapes and
    target, so that schedules for other shapes can be tried.

    Args:
        text: The JSON text.
        bound: The pipeline of the schedule.
        source: Name of the text in messages (a file's path).

    Raises:
        InputError: If the text is no JSON, with line and column.
        ScheduleError: If it is no schedule, of another version or pipeline, or has a wrong value, with its path.
    """
    return _Reader(bound).schedule(parse(text, source))


def save_schedule(
    path: str | os.PathLike[str], bound: BoundPipeline, schedule: Schedule, notes: Mapping[str, object] | None = None
) -> None:
    """Write a schedule to a file, atomically.

    Args:
        path: The file.
        bound: The pipeline of the schedule.
        schedule: The schedule.
        notes: Provenance as plain data, which readers of the schedule ignore.

    Raises:
        ScheduleError: As `to_json`.
        InputError: If the path cannot be written.
    """
    document = to_document(bound, schedule)
    content = indented({**document, NOTES: dict(notes)} if notes else document).encode()
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


def _other_pipeline(source: str, pipeline_hash: str, name: str, bound: BoundPipeline) -> str:
    pipeline = bound.pipeline
    other = f"{name!r} ({pipeline_hash[:12]})" if name else pipeline_hash[:12]
    changed = ", whose definition has changed since" if name == pipeline.name else ""
    return (
        f"{source} was made for pipeline {other}, not for {pipeline.name!r} ({pipeline.hash[:12]}){changed}; {_REMAKE}"
    )


def _write_window(w: WindowDoubling) -> dict[str, Any]:
    return {"func": w.func, "stage": w.stage, "loop": w.loop}


def _write_scan(s: ScanBlocking) -> dict[str, Any]:
    options = {**({"chunk": s.chunk} if s.chunk else {}), **({"doubled": True} if s.doubled else {})}
    return {"func": s.func, "stage": s.stage, "block": s.block, **options}


def _write_deinterleaving(d: Deinterleaving) -> dict[str, Any]:
    return {"func": d.func, "source": d.source, "stride": d.stride}


def _write_unrolling(u: ReductionUnrolling) -> dict[str, Any]:
    return {"func": u.func, "stage": u.stage, "loop": u.loop}


def _write_rfactor(s: RFactor) -> dict[str, Any]:
    flags = {name: True for name, is_set in (("atomic", s.atomic), ("contiguous", s.contiguous)) if is_set}
    return {"func": s.func, "stage": s.stage, "loops": dict(s.loops), **flags}


def _write_kernel(k: Kernel) -> dict[str, Any]:
    return {
        "roots": [_write_root(r) for r in k.roots],
        "members": [_write_producer(m) for m in k.fused],
        "inlined": [{"func": i.func, "calls": i.calls} for i in k.inlined],
        **({"linear_threads": True} if k.linear_threads else {}),
        **({"resident_blocks": k.resident_blocks} if k.resident_blocks else {}),
    }


def _write_root(r: Root) -> dict[str, Any]:
    return {**_write_stage(r.tiling.stage), "stored": r.materialised, "loops": _write_loops(r.tiling)}


def _write_producer(m: FusedProducer) -> dict[str, Any]:
    funcs = {t.stage.func for t in m.tilings}
    if len(funcs) != 1:
        names = " and ".join(sorted(funcs)) or "no Func"
        raise ScheduleError(f"a fused producer has stages of {names}; it needs those of one Func")
    return {
        "func": m.func,
        "at": {"level": m.at.level.key, "host": _write_stage(m.at.host), "depth": m.at.depth},
        "storage_order": list(m.storage_order),
        "stored": m.materialised,
        **({} if m.aligned is None else {"aligned": m.aligned._asdict()}),
        **({} if m.buffers == 1 else {"buffers": m.buffers}),
        **({"asynchronous": True} if m.asynchronous else {}),
        **({"private": True} if m.private else {}),
        **({} if m.registers is None else {"registers": m.registers._asdict()}),
        "stages": [{"number": t.stage.number, "loops": _write_loops(t)} for t in m.tilings],
    }


def _write_stage(s: StageId) -> dict[str, Any]:
    return {"func": s.func, "number": s.number}


def _write_loops(t: StageTiling) -> list[dict[str, Any]]:
    return [{"dim": p.dim, "kind": p.kind.value, "extent": p.extent} for p in t.loops]


class _Reader:
    """Reader of a document, top down; valid names are those of the pipeline after the rewrites read so far."""

    def __init__(self, bound: BoundPipeline) -> None:
        self.bound = bound.root_pipeline
        self.funcs = {name: name for name in self.bound.funcs}

    def schedule(self, top: Node) -> Schedule:
        self._check_version(top)
        keys = ["format", "version", "pipeline", "name", "shapes", "params", "kernels"]
        rewrites = [key for key in _REWRITES if key in top.mapping()]
        if NOTES in top.mapping():
            top.mapping()[NOTES].mapping()  # informative: the kernels are the schedule
            top = top.without(NOTES)
        _, _, pipeline, name, shapes, params, kernels, *rest = top.fields(*keys, *rewrites)
        pipeline_hash, pipeline_name = pipeline.text(), name.text()
        if not re.fullmatch("[0-9a-f]{64}", pipeline_hash):
            raise pipeline.error("is no pipeline's hash, which has 64 hexadecimal digits; " + _REMAKE)
        if pipeline_hash != self.bound.pipeline.hash:
            raise ScheduleError(_other_pipeline(top.source, pipeline_hash, pipeline_name, self.bound))
        self._check_problem(shapes, params)
        nodes = dict(zip(rewrites, rest, strict=True))
        windows = tuple(self._window(w) for w in nodes["windows"].items()) if "windows" in nodes else ()
        scans = tuple(self._scan(s) for s in nodes["scans"].items()) if "scans" in nodes else ()
        read = nodes["deinterleavings"].items() if "deinterleavings" in nodes else ()
        deinterleavings = tuple(self._deinterleaving(d) for d in read)
        hoistings = tuple(self._hoisting(h) for h in nodes["hoistings"].items()) if "hoistings" in nodes else ()
        unrollings = tuple(self._unrolling(u) for u in nodes["unrollings"].items()) if "unrollings" in nodes else ()
        narrowings = tuple(self._narrowing(n) for n in nodes["narrowings"].items()) if "narrowings" in nodes else ()
        rfactors = tuple(self._rfactor(s) for s in nodes["splits"].items()) if "splits" in nodes else ()
        statements = tuple(self._statement(s) for s in nodes["statements"].items()) if "statements" in nodes else ()
        fissions = tuple(self._fission(f) for f in nodes["fissions"].items()) if "fissions" in nodes else ()
        fusions = tuple(self._fusion(j) for j in nodes["joins"].items()) if "joins" in nodes else ()
        clones = tuple(self._clone(c) for c in nodes["clones"].items()) if "clones" in nodes else ()
        found = tuple(self._kernel(k) for k in kernels.items())
        return Schedule(
            pipeline_hash, found, rfactors, fusions, windows, scans, deinterleavings, hoistings, unrollings, narrowings,
            statements, fissions, clones,
        )  # fmt: skip

    def _window(self, node: Node) -> WindowDoubling:
        """Read one window by doubling and apply it, which adds names."""
        func, stage, loop = node.fields("func", "stage", "loop")
        name = func.choice(self.funcs, "Func of the pipeline")
        window = WindowDoubling(name, stage.integer(1, 1 << 20), loop.text())
        problem = window_error(self.bound, window)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(double_windows(self.bound, (*self.bound.windows, window)))
        return window

    def _scan(self, node: Node) -> ScanBlocking:
        """Read one scan by blocks and apply it, which adds names."""
        extra = [option for option in ("chunk", "doubled") if option in node.mapping()]
        func, stage, block, *rest = node.fields("func", "stage", "block", *extra)
        options = dict(zip(extra, rest, strict=True))
        name = func.choice(self.funcs, "Func of the pipeline")
        chunk = options["chunk"].integer(2, LARGEST_EXTENT) if "chunk" in options else 0
        doubled = "doubled" in options and options["doubled"].boolean()
        scan = ScanBlocking(name, stage.integer(1, 1 << 20), block.integer(2, LARGEST_EXTENT), chunk, doubled)
        problem = scan_error(self.bound, scan)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(block_scans(self.bound, (*self.bound.scans, scan)))
        return scan

    def _deinterleaving(self, node: Node) -> Deinterleaving:
        """Read one deinterleaving and apply it, which adds a name."""
        func, source, stride = node.fields("func", "source", "stride")
        name = func.choice(self.funcs, "Func of the pipeline")
        read = {name: name for name in (*self.bound.funcs, *self.bound.inputs)}
        chosen = Deinterleaving(name, source.choice(read, "input or Func"), stride.integer(2, LARGEST_STRIDE))
        problem = deinterleaving_error(self.bound, chosen)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(deinterleave_reads(self.bound, (*self.bound.deinterleavings, chosen)))
        return chosen

    def _hoisting(self, node: Node) -> InvariantHoisting:
        """Read one hoisting and apply it, which adds a name."""
        func, dim = node.fields("func", "dim")
        hoisting = InvariantHoisting(func.choice(self.funcs, "Func of the pipeline"), dim.text())
        problem = hoisting_error(self.bound, hoisting)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(hoist_invariants(self.bound, (*self.bound.hoistings, hoisting)))
        return hoisting

    def _unrolling(self, node: Node) -> ReductionUnrolling:
        """Read one unrolled reduction and apply it, which adds and removes names."""
        func, stage, loop = node.fields("func", "stage", "loop")
        name = func.choice(self.funcs, "Func of the pipeline")
        chosen = ReductionUnrolling(name, stage.integer(1, 1 << 20), loop.text())
        problem = unrolling_error(self.bound, chosen)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(unroll_reductions(self.bound, (*self.bound.unrollings, chosen)))
        return chosen

    def _narrowing(self, node: Node) -> IntegerNarrowing:
        """Read one narrowing and apply it, which changes types."""
        narrowing = IntegerNarrowing(tuple(name.choice(self.funcs, "Func of the pipeline") for name in node.items()))
        problem = narrowing_error(self.bound, narrowing)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(narrow_integers(self.bound, (*self.bound.narrowings, narrowing)))
        return narrowing

    def _rfactor(self, node: Node) -> RFactor:
        """Read one rfactor and apply it, which adds names."""
        flags = [name for name in ("atomic", "contiguous") if name in node.mapping()]
        func, stage, loops, *rest = node.fields("func", "stage", "loops", *flags)
        is_set = {name: value.boolean() for name, value in zip(flags, rest, strict=True)}
        factors = {name: value.integer(2, LARGEST_EXTENT) for name, value in loops.mapping().items()}
        rfactor = RFactor(
            func.choice(self.funcs, "Func of the pipeline"),
            stage.integer(1, 1 << 20),
            tuple(factors.items()),
            atomic=is_set.get("atomic", False),
            contiguous=is_set.get("contiguous", False),
        )
        problem = rfactor_error(self.bound, rfactor)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(apply_rfactors(self.bound, (*self.bound.rfactors, rfactor)))
        return rfactor

    def _statement(self, node: Node) -> StatementRewrite:
        """Read one rewritten statement and apply it, which adds a name."""
        chosen = read_statement(node, self.funcs)
        problem = statement_error(self.bound, chosen)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(rewrite_statements(self.bound, (*self.bound.statements, chosen)))
        return chosen

    def _fission(self, node: Node) -> ComponentFission:
        """Read one fission of components and apply it, which changes names."""
        fission = read_fission(node, self.funcs)
        problem = component_fission_error(self.bound, fission)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(split_components(self.bound, (*self.bound.fissions, fission)))
        return fission

    def _fusion(self, node: Node) -> HorizontalFusion:
        """Read one horizontal fusion and apply it, which changes names."""
        fusion = HorizontalFusion(tuple(name.choice(self.funcs, "Func of the pipeline") for name in node.items()))
        problem = fusion_error(self.bound, fusion)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(fuse_outputs(self.bound, (*self.bound.fusions, fusion)))
        return fusion

    def _clone(self, node: Node) -> FuncClone:
        """Read one clone and apply it, which adds a name."""
        clone = read_clone(node, self.funcs)
        problem = clone_error(self.bound, clone)
        if problem:
            raise node.error(f"cannot be made: {problem}")
        self._continue_with(clone_funcs(self.bound, (*self.bound.clones, clone)))
        return clone

    def _continue_with(self, bound: BoundPipeline) -> None:
        self.bound = bound
        self.funcs = {name: name for name in bound.funcs}

    def _check_version(self, top: Node) -> None:
        """Check format and version, before anything that depends on them."""
        entries = top.mapping()
        if "format" not in entries or entries["format"].value != FORMAT:
            if "format" in entries and entries["format"].value == TIME_LOOP_FORMAT:
                raise top.error(
                    "has the schedules of a time loop, not one of a pipeline: export it with `autosched export "
                    "--times`, or load it with autosched.iterate(pipeline).load()"
                )
            raise top.error(f'is no schedule: one starts with "format": "{FORMAT}"; {_REMAKE}')
        if "version" not in entries:
            raise top.error(f"lacks its version: this release reads version {VERSION}; {_REMAKE}")
        version = entries["version"].integer(1, LARGEST_COUNT)
        if version != VERSION:
            raise top.error(
                f"is a schedule of version {version}, and this release reads version {VERSION}: "
                f"use the release that wrote it, or {_REMAKE}"
            )

    def _check_problem(self, shapes: Node, params: Node) -> None:
        """Check the form of shapes and parameters, which are informative: a schedule may be tried on others."""
        for name, node in zip(self.bound.inputs, shapes.fields(*self.bound.inputs), strict=True):
            extents = [e.integer(0, LARGEST_COUNT) for e in node.items()]
            rank = len(self.bound.inputs[name].shape)
            if len(extents) != rank:
                raise node.error(f"has {len(extents)} extents: input {name!r} has {rank} dimensions")
        for node in params.fields(*self.bound.specialised):
            if not isinstance(node.value, bool):
                node.integer(-LARGEST_COUNT - 1, 2 * LARGEST_COUNT + 1)

    def _kernel(self, node: Node) -> Kernel:
        entries = node.mapping()
        linear, resident = entries.get("linear_threads"), entries.get("resident_blocks")
        optional = [name for name in ("linear_threads", "resident_blocks") if name in entries]
        roots, fused, inlined, *_ = node.fields("roots", "members", "inlined", *optional)
        if not roots.items():
            raise roots.error("is empty: a kernel computes at least one stage")
        return Kernel(
            tuple(self._root(r) for r in roots.items()),
            tuple(self._producer(m) for m in fused.items()),
            tuple(self._inlined(i) for i in inlined.items()),
            linear is not None and linear.boolean(),
            0 if resident is None else resident.integer(0, LARGEST_RESIDENT),
        )

    def _root(self, node: Node) -> Root:
        func, number, materialised, loops = node.fields("func", "number", "stored", "loops")
        return Root(self._tiling(self._stage(func, number), loops), materialised.boolean())

    def _producer(self, node: Node) -> FusedProducer:
        entries = node.mapping()
        names = ("aligned", "buffers", "asynchronous", "private", "registers")
        optional = [name for name in names if name in entries]
        alignment, count, is_async, is_private, hybrid = map(entries.get, names)
        func, at, order, materialised, stages, *_ = node.fields(
            "func", "at", "storage_order", "stored", "stages", *optional
        )
        if not stages.items():
            raise stages.error("is empty: a fused producer has at least one stage")
        tilings = []
        for s in stages.items():
            number, loops = s.fields("number", "loops")
            tilings.append(self._tiling(self._stage(func, number), loops))
        aligned = None if alignment is None else self._alignment(alignment)
        buffers = 1 if count is None else count.integer(1, 2)
        location, dims = self._compute_at(at), self._storage_order(func, order)
        asynchronous = is_async is not None and is_async.boolean()
        private = is_private is not None and is_private.boolean()
        registers = None if hybrid is None else self._hybrid_tile(func, hybrid)
        return FusedProducer(
            tuple(tilings), location, dims, materialised.boolean(), aligned, buffers, asynchronous, private, registers
        )

    def _hybrid_tile(self, func: Node, node: Node) -> HybridTile:
        dim, iterations = node.fields("dim", "iterations")
        dims = self._bound_func(func.text()).dims
        name = dim.choice({d: d for d in dims}, f"dimension of {func.text()!r}")
        return HybridTile(name, iterations.integer(1, LARGEST_EXTENT))

    def _alignment(self, node: Node) -> TileAlignment:
        multiple, remainder = node.fields("multiple", "remainder")
        n = multiple.integer(1, LARGEST_EXTENT)
        return TileAlignment(n, remainder.integer(0, n - 1))

    def _compute_at(self, node: Node) -> ComputeAt:
        level, host, depth = node.fields("level", "host", "depth")
        stage = self._stage(*host.fields("func", "number"))
        return ComputeAt(level.choice(_LEVELS, "level of a fused producer"), stage, depth.integer(0, LARGEST_EXTENT))

    def _storage_order(self, func: Node, order: Node) -> tuple[str, ...]:
        dims = self._bound_func(func.text()).dims
        listed = tuple(d.choice({d: d for d in dims}, f"dimension of {func.text()!r}") for d in order.items())
        if sorted(listed) != sorted(dims):
            raise order.error(f"is {list(listed)}: give every dimension of {func.text()!r} once ({', '.join(dims)})")
        return listed

    def _inlined(self, node: Node) -> Inlined:
        func, calls = node.fields("func", "calls")
        return Inlined(self._func(func), calls.integer(1, LARGEST_COUNT))

    def _func(self, node: Node) -> str:
        if isinstance(node.value, str) and cached_source(node.value) in {*self.bound.inputs, *self.bound.funcs}:
            return node.value  # a cache read
        return node.choice(self.funcs, f"Func of pipeline {self.bound.pipeline.name!r}")

    def _stage(self, func: Node, number: Node) -> StageId:
        name = self._func(func)
        return StageId(name, number.integer(0, len(self._bound_func(name).stages) - 1))

    def _bound_func(self, name: str) -> BoundFunc:
        """Return a Func of the pipeline, or a cache read of an input or Func."""
        source = cached_source(name)
        return (self.bound if source is None else insert_cache_reads(self.bound, [source])).funcs[name]

    def _tiling(self, stage: StageId, node: Node) -> StageTiling:
        dims = {d.name: d.name for d in self._bound_func(stage.func).stages[stage.number].loops}
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
