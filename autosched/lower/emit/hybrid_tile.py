"""Nests that compute or read hybrid tiles, in parts: loops over shared memory, then one point of each lane at a time.

for x_s < 8: blurx[32*x_s + x_t] = ...                  points in shared memory
blurx_r[0] = ...; blurx_r[1] = ...                      steps in registers, unrolled

for x_s < 8: blury = blurx[...] + ...
v = shuffle(blurx_r[0], x_t + 31)                       executed by all lanes, outside of the guards of points
blury = (x_t < 1 ? blurx[...] : v) + blurx_r[0]         the first step in registers also reads shared memory
v = shuffle(x_t == 31 ? blurx_r[0] : blurx_r[1], x_t + 31)
blury = v + blurx_r[1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.lower.emit.register_blocking import (
    allocate_register_tiles,
    load_if_read,
    store_register_tiles,
    update,
)
from autosched.lower.emit.stage_loops import emit_stage
from autosched.lower.ir import Alloc, Memory
from autosched.lower.kernel_context import EmitMode, KernelContext, TileElement
from autosched.schedule.kernel.hybrid_parts import HybridParts, NestPart
from autosched.schedule.kernel.thread_fusion import is_private_tile
from autosched.schedule.plan import Nest
from autosched.schedule.policy import in_registers


def emit_hybrid_parts(context: KernelContext, mode: EmitMode, parts: HybridParts, group: Sequence[Nest]) -> None:
    """Emit the stages of a thread nest that computes or reads hybrid tiles."""
    builder = context.builder
    outer, builder.lane_scope = builder.lane_scope, builder.scope
    for part in parts.divide(group):
        _emit_part(context, mode, parts, part)
    builder.lane_scope = outer


def _emit_part(context: KernelContext, mode: EmitMode, parts: HybridParts, part: NestPart) -> None:
    func = context.bound.funcs[part.nests[0].stage.func]
    if part.is_unrolled:
        mode = replace(mode, lanes=part.nests[0])
    if part.register is not None:
        buffers = tuple(context.hybrid_registers(func.name, k) for k in range(len(func.dtypes)))
        mode = replace(mode, registers={**mode.registers, func.name: TileElement(buffers, part.register)})
    is_updated = len(part.nests) > 1 or part.nests[0].stage.is_update
    is_private = all(is_private_tile(func, n.stage) for n in part.nests)
    promoted = part.register is None and is_updated and is_private
    if promoted and bool(in_registers(part.nests[0].serial_points, len(func.dtypes))):
        tile = allocate_register_tiles(context, part.nests[0], Memory.REGISTER)
        for b in tile.buffers:
            context.builder.append(Alloc(b))
        load_if_read(context, mode, tile, part.nests[0])
        for n in part.nests:
            for term in _terms(parts, part, n):
                update(context, mode, tile, term)
        store_register_tiles(context, mode, tile, part.nests[-1])
        return
    for n in part.nests:
        for term in _terms(parts, part, n):
            emit_stage(context, mode, term, in_registers=part.register is not None)


def _terms(parts: HybridParts, part: NestPart, n: Nest) -> Sequence[Nest]:
    """Return a nest, one for each term whose registers differ."""
    return parts.unrolled_terms(n) if part.is_unrolled else [n]
