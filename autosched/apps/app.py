"""An application of the benchmark suite: its pipeline, inputs and reference."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from autosched.apps.names import did_you_mean
from autosched.apps.sizes import Extent, shapes_from_sizes, sizes_from_shapes
from autosched.apps.tolerance import EXACT, Tolerance
from autosched.errors import InputError
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline

Arrays = dict[str, NDArray[Any]]
Setting = Scalar | str | tuple[float, ...]
"""Value of a parameter; only a structural one can be several numbers or a word."""


@dataclass(frozen=True, slots=True, eq=False)
class App:
    """One application of the suite.

    A parameter of an app is either *structural*, an argument of ``build`` that changes the pipeline or its constants,
    or a `Param` of the pipeline. `configure` takes both kinds by name.

    Attributes:
        name: Name in the registry and of the pipeline.
        build: Returns the pipeline; every argument has a default.
        papers: Short names of the papers that measured it; empty for apps of this project.
        extents: Shape of every input in terms of the problem sizes.
        default_sizes: Problem sizes used in the papers.
        small_sizes: Problem sizes for tests, chosen so that tiles do not divide them.
        generate: Returns input arrays for complete sizes and a seed.
        compute: Returns the outputs from keyword arguments, inputs first, then parameters, by common libraries
            alone; an input whose name is a keyword of Python has an underscore appended.
        tolerance: Allowed difference between outputs and those of ``compute``.
        nominal_flops: Operations per output point as the paper counts them, where it reports GFLOP/s.
        variant_of: An app with nearly the same pipeline; a model evaluated on one must not be trained on the other.
    """

    name: str
    build: Callable[..., Pipeline]
    papers: tuple[str, ...]
    extents: Mapping[str, tuple[Extent, ...]]
    default_sizes: Mapping[str, int]
    small_sizes: Mapping[str, int]
    generate: Callable[[Mapping[str, int], int], Arrays]
    compute: Callable[..., Arrays]
    tolerance: Tolerance = field(default=EXACT)
    nominal_flops: int | None = None
    variant_of: str | None = None

    @property
    def family(self) -> str:
        """The app that represents its variants."""
        return self.variant_of or self.name

    @property
    def summary(self) -> str:
        """One line of description: the first line of its module's docstring."""
        module = inspect.getmodule(self.build)
        return (inspect.getdoc(module) or "").partition("\n")[0].rstrip(".")

    @property
    def origin(self) -> str:
        """The papers, or ``ours``."""
        return ", ".join(self.papers) or "ours"

    @property
    def structure(self) -> dict[str, Setting]:
        """Structural parameters and their defaults."""
        return {name: argument.default for name, argument in inspect.signature(self.build).parameters.items()}

    @property
    def params(self) -> dict[str, Setting | None]:
        """All parameters, structural ones first, and their defaults."""
        return {**self.structure, **{p.name: p.default for p in self.build().params}}

    def configure(self, values: Mapping[str, Setting | str] | None = None) -> tuple[Pipeline, dict[str, Scalar]]:
        """Build the pipeline for some parameter values and return it with the values of its `Param`s.

        Args:
            values: Parameters by name, as numbers or as text from a command line; missing ones have their default.

        Raises:
            InputError: For an unknown parameter or a value of another kind.
        """
        given = dict(values or {})
        structure = {
            name: _convert_like(self.name, name, given.pop(name), default)
            for name, default in self.structure.items()
            if name in given
        }
        pipeline = self.build(**structure)
        kinds = {p.name: float if p.dtype.is_float else bool if p.dtype.kind == "b" else int for p in pipeline.params}
        for name in given:
            if name not in kinds:
                names = [*self.structure, *kinds]
                raise InputError(f"{self.name} has no parameter {name!r}: {did_you_mean(name, names)}")
        return pipeline, {name: _convert(self.name, name, value, kinds[name]) for name, value in given.items()}

    def sizes(self, given: Mapping[str, int] | None = None) -> dict[str, int]:
        """Return the default sizes with some of them replaced.

        Raises:
            InputError: For an unknown size or one below 1.
        """
        for key, value in (given or {}).items():
            if key not in self.default_sizes:
                raise InputError(f"{self.name} has no size {key!r}: {did_you_mean(key, self.default_sizes)}")
            if value < 1:
                raise InputError(f"size {key} of {self.name} is {value}: give at least 1")
        return {**self.default_sizes, **(given or {})}

    def shapes(self, sizes: Mapping[str, int] | None = None) -> dict[str, tuple[int, ...]]:
        """Return the shape of every input, outermost dimension first; sizes left out have their defaults."""
        return shapes_from_sizes(self.extents, self.sizes(sizes))

    def sizes_of(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Return the problem sizes of input arrays.

        Raises:
            InputError: If an input is missing, its shape does not fit, or two inputs disagree about a size.
        """
        return sizes_from_shapes(self.extents, shapes)

    def make_inputs(self, sizes: Mapping[str, int] | None = None, seed: int = 0) -> Arrays:
        """Return input arrays; the same sizes and seed give the same arrays, and seed 0 an unshifted photograph."""
        return self.generate(self.sizes(sizes), seed)

    def reference(self, inputs: Mapping[str, NDArray[Any]], params: Mapping[str, Setting] | None = None) -> Arrays:
        """Return the outputs computed by NumPy or SciPy, independent of this library.

        Args:
            inputs: Every input array by name.
            params: Parameters by name, structural or not; missing ones have their default.

        Raises:
            InputError: If SciPy is needed and not installed.
        """
        given = dict(params or {})
        pipeline, _ = self.configure(given)  # where the default of a Param may follow from a structural parameter
        defaults = {p.name: p.default for p in pipeline.params}
        return self.compute(**{argument_name(k): a for k, a in inputs.items()}, **{**defaults, **given})


def argument_name(name: str) -> str:
    """Return the Python argument for an input or parameter of that name."""
    return f"{name}_" if keyword.iskeyword(name) else name


def load_ndimage() -> ModuleType:
    """Return ``scipy.ndimage``, which some references are written with.

    Raises:
        InputError: If SciPy is not installed.
    """
    try:
        import scipy.ndimage
    except ImportError as e:
        raise InputError("this reference is computed by SciPy, which is not installed: pip install scipy") from e
    return scipy.ndimage  # type: ignore[no-any-return]


def _convert_like(app: str, name: str, value: Setting | str, default: Setting) -> Setting:
    """Return a structural parameter's value in the type of its default; tuples keep their length."""
    if isinstance(default, str):
        return str(value)
    if not isinstance(default, tuple):
        return _convert(app, name, value, type(default))
    numbers = value.split(",") if isinstance(value, str) else value
    if not isinstance(numbers, Sequence) or len(numbers) != len(default):
        example = f"{name}={','.join(map(str, default))}"
        raise InputError(f"parameter {name} of {app} is {value!r}: give {len(default)} numbers, as in {example}")
    return tuple(float(_convert(app, name, n, float)) for n in numbers)


def _convert(app: str, name: str, value: Setting | str, kind: type) -> Scalar:
    """Return a parameter's value in the type of its default; text is parsed without loss of digits."""
    try:
        if kind is bool:
            return _TRUTH[str(value).strip().lower()]
        if kind is int and isinstance(value, float) and not value.is_integer():
            raise ValueError
        return int(value) if kind is int else float(value)  # type: ignore[arg-type]  # a tuple raises
    except (KeyError, TypeError, ValueError):
        raise InputError(f"parameter {name} of {app} is {value!r}: give a {_KIND_NAMES[kind]}") from None


_TRUTH = {"1": True, "true": True, "0": False, "false": False}
_KIND_NAMES = {int: "whole number", float: "number", bool: "truth value (0 or 1)"}
