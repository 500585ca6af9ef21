"""Writer of random programs; each statement is executed at once to detect refusals."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from autosched.errors import AutoschedError
from autosched.lang.dtypes import DType
from autosched.lang.expr import Expr
from fuzzing.program import language
from fuzzing.refusals import reason

T = TypeVar("T")

TYPES = (
    "float32", "int32", "uint8", "float64", "int16", "uint16", "float16", "bfloat16", "int8", "int64", "uint32",
    "uint64", "bool",
)  # fmt: skip
SIZES = (7, 1, 2, 3, 5, 8, 12, 16, 17, 13, 4, 20)


@dataclass(frozen=True)
class Source:
    """A Func of the program, readable at every point, or an Input, readable inside its shape.

    Attributes:
        name: Its name.
        dims: Names of its dimensions.
        shape: Extents of an Input; None for a Func.
        components: Number of values at a point.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...] | None = None
    components: int = 1

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.dims)


@dataclass
class Writer:
    """A partially written program.

    Attributes:
        random: Source of all decisions.
        lines: Statements.
        sources: Readable Funcs.
        inputs: Inputs.
        params: Names of parameters for values.
        bounds: Names of parameters for indices.
        outputs: Text of each output.
        values: Shapes of inputs and values of parameters.
        refused: Number of refused statements by reason.
        names: Namespace of the program.
        tried: The last statement, accepted or not.
    """

    random: random.Random
    lines: list[str] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    inputs: list[Source] = field(default_factory=list)
    params: list[str] = field(default_factory=list)
    bounds: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    names: dict[str, Any] = field(default_factory=language)
    tried: str = ""

    def integer(self, low: int, high: int) -> int:
        """Return an integer of an inclusive range."""
        return self.random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.random.randrange(len(options))]

    def chance(self, percent: int) -> bool:
        """Return True with a probability in percent."""
        return self.random.randrange(100) < percent

    def add(self, line: str) -> None:
        """Append a statement.

        Raises:
            AutoschedError: If the language refuses it.
        """
        self.tried = line
        exec(compile(line, "<program>", "exec"), self.names)
        self.lines.append(line)

    def accepts(self, line: str) -> bool:
        """Append a statement unless the language refuses it; refusals are counted."""
        try:
            self.add(line)
        except AutoschedError as error:
            self.refused[reason(error)] += 1
            return False
        return True

    def value(self, text: str) -> Any:
        """Return the value of an expression.

        Raises:
            AutoschedError: If the language refuses it.
        """
        return eval(compile(text, "<program>", "eval"), self.names)

    def dtype(self, text: str) -> DType | None:
        """Return the type of an expression; None for a Python number."""
        value = self.value(text)
        return value.dtype if isinstance(value, Expr) else None

    def fresh(self, prefix: str) -> str:
        """Return an unused name."""
        k = 0
        while f"{prefix}{k}" in self.names:
            k += 1
        return f"{prefix}{k}"

    def variables(self, *names: str) -> tuple[str, ...]:
        """Declare missing Vars; return their names."""
        for name in names:
            if name not in self.names:
                self.add(f'{name} = Var("{name}")')
        return names

    def func(self, prefix: str = "f") -> str:
        """Declare a Func; return its name."""
        name = self.fresh(prefix)
        self.add(f'{name} = Func("{name}")')
        return name

    def input(self, dtype: str, shape: Sequence[int]) -> Source:
        """Declare an Input of a shape."""
        name = self.fresh("a")
        dims = DIMS[4 - len(shape) :]
        self.add(f'{name} = Input("{name}", "{dtype}", {len(shape)}, dims={dims!r})')
        self.values[name] = tuple(shape)
        self.inputs.append(Source(name, dims, tuple(shape)))
        return self.inputs[-1]

    def param(self, dtype: str, value: Any, *, index: bool = False) -> str:
        """Declare a Param with its value."""
        name = self.fresh("p")
        self.add(f'{name} = Param("{name}", "{dtype}")')
        self.values[name] = value
        (self.bounds if index else self.params).append(name)
        return name

    def output(
        self, name: str, box: Sequence[tuple[int, int]] | Sequence[tuple[str, str]], dims: Sequence[str]
    ) -> None:
        """List a Func as an output over a box."""
        if any(text.split(".")[0] == name for text in self.outputs):
            return
        ranges = ", ".join(f"{d}=({low}, {high})" for d, (low, high) in zip(dims, box, strict=True))
        self.outputs.append(f"{name}.over({ranges})")

    def finish(self) -> str:
        """Append the pipeline, the shapes and the parameters; return the text.

        Raises:
            AutoschedError: If the language refuses the pipeline.
        """
        shapes = {i.name: self.values[i.name] for i in self.inputs}
        params = {p: self.values[p] for p in (*self.params, *self.bounds)}
        self.add(f"pipeline = Pipeline([{', '.join(self.outputs)}])")
        self.add(f"shapes = {shapes!r}")
        self.add(f"params = {params!r}")
        return "\n".join(self.lines) + "\n"


DIMS = ("n", "c", "y", "x")


def at(name: str, indices: Sequence[str]) -> str:
    """Return the text of a Func at a point."""
    return f"{name}[{', '.join(indices) or '()'}]"
