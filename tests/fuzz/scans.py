"""Random scans over rows: distance and position of self-reads, the loops over steps, the stages around the scan."""

from __future__ import annotations

from typing import Any

import numpy as np

import autosched as a
from autosched import Func, Input, Pipeline, RDom, Var, cast, clamp, float32, int32, select, uint8
from tests.fuzz.choices import Choices
from tests.fuzz.pipelines import Case

y, x, z, b = Var("y"), Var("x"), Var("z"), Var("b")


class _Scan:
    """One program under construction: a batch, perhaps, then rows, then one or two dimensions of a row."""

    def __init__(self, c: Choices) -> None:
        self.c = c
        self.rows, self.batch = c.integer(1, 9), c.integer(1, 3) if c.chance(25) else 0
        self.columns = (*((c.integer(1, 5),) if c.chance(25) else ()), c.integer(1, 40 if c.chance(20) else 14))
        self.dims = (*((b,) if self.batch else ()), y, *((z,) if len(self.columns) > 1 else ()), x)
        self.shape = (*((self.batch,) if self.batch else ()), self.rows, *self.columns)
        self.dtype = c.pick((int32, float32, uint8))
        self.image = Input("image", self.dtype, len(self.shape))
        self.where = Input("where", uint8, 1)
        self.back = [c.integer(1, 3) for _ in range(c.integer(1, 3))]

    def case(self) -> Case:
        """Return the program with its inputs."""
        c = self.c
        m = Func("m")
        source: Any = self.image
        if c.chance(30):
            before = Func("before")
            before[self.dims] = self.image[self.dims] + self.image.clamped()[(*self.dims[:-1], x + 1)]
            source = before
        m[self.dims] = source[self.dims]
        first = max(self.back)
        names = {"y": (min(first, self.rows), self.rows)}
        if c.chance(25):
            names["k"] = (0, self.columns[-1])
        walked = not names.get("k") and c.chance(20)
        if walked:
            names["x"] = (0, self.columns[-1])
        r = RDom("r", **names)
        self._update(m, source, r, walked)
        if c.chance(20):
            again = RDom("again", y=(0, self.rows - 1))
            row = self.rows - 2 - again.y  # upwards
            here = self._at(row, x)
            m[here] += m[self._at(row + 1, clamp(x + c.integer(-1, 1), 0, self.columns[-1] - 1))]
        out, box = m, dict(zip((v.name for v in self.dims), self.shape, strict=True))
        if c.chance(30):
            out = Func("out")
            out[x] = m[tuple(0 if v.name in ("b", "z") else self.rows - 1 if v.name == "y" else x for v in self.dims)]
            box = {"x": self.columns[-1]}
        if c.chance(15):
            box["x"] = c.integer(1, box["x"])
        pipeline = Pipeline(out.over(**{d: (0, n) for d, n in box.items()}))
        rng = np.random.default_rng(c.integer(0, 999))
        inputs = {"image": self.shape, "where": (40,)}
        arrays = {i.name: rng.integers(0, 99, inputs[i.name]).astype(i.dtype.numpy) for i in pipeline.inputs}
        return Case(pipeline, arrays, {})

    def _at(self, row: Any, column: Any) -> tuple[Any, ...]:
        return tuple(row if v.name == "y" else column if v.name == "x" else v for v in self.dims)

    def _update(self, m: Func, source: Any, r: RDom, walked: bool) -> None:
        c = self.c
        here: Any = r.x if walked else x
        flipped = c.chance(15)  # iterates over the rows from the last to the first

        def row(back: int) -> Any:
            return self.rows - 1 - r.y + back if flipped else r.y - back

        reads = [m[self._at(row(back), self._column(here, r))] for back in self.back]
        if len(self.columns) > 1 and c.chance(50):
            reads = [m[self._moved(row(back), here)] for back in self.back]
        value = reads[0]
        for other in reads[1:]:
            value = c.pick((a.min, a.max, lambda p, q: p + q, lambda p, q: select(p < q, p * 2, q)))(value, other)
        own = m[self._at(row(0), here)]
        if "k" in {v.name.split(".")[1] for v in r.vars}:
            value = a.max(own, value + cast(self.dtype, self.where[r.k]))
        elif c.chance(50):
            value = own + value
        else:
            value = value + source[self._at(row(0), here)]
        m[self._at(row(0), here)] = value

    def _column(self, here: Any, r: RDom) -> Any:
        last = self.columns[-1] - 1
        ways = [
            lambda: clamp(here + self.c.integer(-3, 3), 0, last),
            lambda: here,
            lambda: last - here,
            lambda: here // 2,
            lambda: clamp(cast(int32, self.where[here]) % 5 + here - 2, 0, last),
            lambda: self.c.integer(0, last),
        ]
        if "r.k" in {v.name for v in r.vars}:
            ways += [lambda: r.k] * 3
        return self.c.pick(ways)()

    def _moved(self, row: Any, here: Any) -> tuple[Any, ...]:
        """Return a point of another row that is elsewhere in both dimensions of a row."""
        at = self._at(row, clamp(here + self.c.integer(-2, 2), 0, self.columns[-1] - 1))
        depth = self.columns[0]
        return tuple(clamp(z + 1, 0, depth - 1) if v.name == "z" else e for v, e in zip(self.dims, at, strict=True))


def random_scan(c: Choices) -> Case:
    """Return a random scan over rows with inputs for it."""
    return _Scan(c).case()
