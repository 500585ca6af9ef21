"""CUDA text by pystencils for iterated stencils of the suite; needs no GPU.

    python scripts/build_stencil_peers.py PEERS [--size 512]

Writes the kernels and the program that times them, `stencil_peers.py`, to a directory of peers, which
`scripts/gpu_campaign.py --peers PEERS` takes. pystencils is installed by itself: ``pip install pystencils``.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.apps import denoise, helmholtz, smoother27pt
from autosched.apps.sweeps import H2INV, SWEEPS, A, B
from autosched.atomic_files import replace_file
from autosched.errors import InputError
from peers import stencil_peers

if TYPE_CHECKING:
    from pystencils import Assignment, Field

Offset = tuple[int, int, int]
"""Distance in points along z, y, x."""
CUBE: tuple[Offset, ...] = tuple((k, j, i) for k in (-1, 0, 1) for j in (-1, 0, 1) for i in (-1, 0, 1))
C = B * H2INV
TYPES = "typedef long long int64_t;\n#define RESTRICT __restrict__\n"
"""Names that pystencils takes from headers of its own."""


def _at(field: Field, offset: Offset) -> Any:
    return field[offset]


def _around(field: Field, distance: int = 1) -> list[Any]:
    """Return the six values at a distance along the axes."""
    units = [tuple(m if axis == a else 0 for axis in range(3)) for a in range(3) for m in (-distance, distance)]
    return [field[unit] for unit in units]


def _smoother7pt(u: Field) -> Any:
    return A * _at(u, (0, 0, 0)) - C * (sum(_around(u)) - 6 * _at(u, (0, 0, 0)))


def _smoother27pt(u: Field) -> Any:
    faces, edges, corners = (sum(_at(u, o) for o in CUBE if sum(map(abs, o)) == axes) for axes in (1, 2, 3))
    here = _at(u, (0, 0, 0))
    return A * here - C / 2 * corners + C / 8 * edges + smoother27pt.FACE * C * faces + smoother27pt.CENTRE * here


def _helmholtz(u: Field) -> Any:
    c, here = helmholtz.SCALE * C, _at(u, (0, 0, 0))
    return A * here + c * sum(_around(u, 2)) + 16 * c * sum(_around(u)) - 90 * c * here


def _inverse_gradient(u: Field) -> Any:
    import sympy

    here = _at(u, (0, 0, 0))
    return 1 / sympy.sqrt(denoise.EPSILON + sum((here - other) ** 2 for other in _around(u)))


def _denoised(u: Field, g: Field, f: Field) -> Any:
    here = _at(u, (0, 0, 0))
    r0 = here * _at(f, (0, 0, 0)) / denoise.VARIANCE
    (n0, n1), (d0, d1, d2) = denoise.NUMERATOR, denoise.DENOMINATOR
    r = r0 * (n0 + r0 * (n1 + r0)) / (d0 + r0 * (d1 + r0 * (d2 + r0)))
    weights = _around(g)
    drawn = sum(a * b for a, b in zip(_around(u), weights, strict=True)) + denoise.GAMMA * _at(f, (0, 0, 0)) * r
    return (here + denoise.STEP * drawn) / (1 + denoise.STEP * (sum(weights) + denoise.GAMMA))


STEPS: dict[str, tuple[int, tuple[tuple[str, str, Callable[..., Any]], ...]]] = {
    "smoother7pt": (1, (("after", "u", _smoother7pt),)),
    "smoother27pt": (1, (("after", "u", _smoother27pt),)),
    "helmholtz": (2, (("after", "u", _helmholtz),)),
    "denoise": (1, (("g", "u", _inverse_gradient), ("after", "u g f", _denoised))),
}
"""Of each app, the width of the rim that keeps its values, and kernels of a step: arrays written and read, value."""


def kernel(name: str, written: str, read: str, value: Callable[..., Any], rim: int, size: int) -> dict[str, Any]:
    """Return a kernel for cubes of float64 as a document for `stencil_peers`.

    Args:
        name: Its name.
        written: The array that it writes.
        read: Names of the arrays that it reads, separated by blanks.
        value: Returns the value of a point from the fields.
        rim: Width in points of the faces that are not written.
        size: Points along each axis.

    Raises:
        InputError: If pystencils is not installed.
    """
    try:
        import pystencils
        from pystencils import Assignment
    except ImportError as error:
        raise InputError("pystencils is missing: pip install pystencils") from error
    names = [written, *read.split()]
    fields = dict(zip(names, pystencils.fields(f"{','.join(names)}: double[{size},{size},{size}]"), strict=True))
    assignment: Assignment = Assignment(fields[written].center, value(*(fields[n] for n in read.split())))
    config = pystencils.CreateKernelConfig(target=pystencils.Target.CUDA, ghost_layers=rim, function_name=name)
    made = pystencils.create_kernel([assignment], config)
    block, grid = made.get_launch_configuration().evaluate()
    return {
        "name": name,
        "source": f'{TYPES}extern "C" {made.get_c_code()}',
        "arrays": [p.name.removeprefix("_data_") for p in made.parameters],
        "points": [size - 2 * rim] * 3,
        "block": list(block),
        "grid": list(grid),
    }


def kernels_of(app: str, size: int) -> dict[str, Any]:
    """Return an app's kernels on cubes as a document for `stencil_peers`.

    Args:
        app: One of `STEPS`.
        size: Points along each axis.

    Raises:
        InputError: If pystencils is not installed.
    """
    rim, steps = STEPS[app]
    kernels = [kernel(f"{app}_{written}", written, read, value, rim, size) for written, read, value in steps]
    return {"size": size, "steps": SWEEPS, "kernels": kernels}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the kernels and the program that times them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", type=Path, help="directory of peers, made if missing")
    parser.add_argument("--size", type=int, default=512, help="points along each axis")
    args = parser.parse_args(arguments)
    try:
        documents = {app: kernels_of(app, args.size) for app in STEPS}
    except InputError as error:
        parser.error(str(error))
    args.peers.mkdir(parents=True, exist_ok=True)
    replace_file(args.peers / stencil_peers.KERNELS, lambda path: path.write_text(json.dumps(documents)))
    shutil.copyfile(Path(stencil_peers.__file__), args.peers / Path(stencil_peers.__file__).name)
    print(f"{len(documents)} apps in {args.peers}")
