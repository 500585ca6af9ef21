"""Small pipelines whose tiles can be computed by hand."""

from __future__ import annotations

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline

c, y, x = Var("c"), Var("y"), Var("x")


def blur(height: int = 200, width: int = 300) -> BoundPipeline:
    """Return Listing 1 of the paper, inside its input: ``blur_x``, then ``blur_y``."""
    image, blur_x, blur_y = Input("image", float32, 2), Func("blur_x"), Func("blur_y")
    blur_x[y, x] = (image[y, x - 1] + image[y, x] + image[y, x + 1]) / 3
    blur_y[y, x] = (blur_x[y - 1, x] + blur_x[y, x] + blur_x[y + 1, x]) / 3
    out = blur_y.over(y=(1, height + 1), x=(1, width + 1))
    return bind(Pipeline([out], name="blur"), {"image": (height + 2, width + 2)})


def diamond() -> BoundPipeline:
    """Return a stencil with two readers of different reach: ``a`` is read by ``left``, ``up`` and ``out``."""
    image, a, left, up, out = Input("image", float32, 2), Func("a"), Func("left"), Func("up"), Func("out")
    a[y, x] = image[y, x] * 2
    left[y, x] = a[y, x - 3] + a[y, x]
    up[y, x] = a[y - 2, x] - a[y, x + 1]
    out[y, x] = left[y, x] * up[y, x + 1] + a[y, x]
    return bind(Pipeline([out.over(y=(2, 102), x=(3, 203))], name="diamond"), {"image": (102, 206)})


def pyramid() -> BoundPipeline:
    """Return stencils around a downsampling, which is no stencil: ``fine``, ``half``, ``coarse``, ``out``."""
    image, fine, half = Input("image", float32, 2), Func("fine"), Func("half")
    coarse, out = Func("coarse"), Func("out")
    fine[y, x] = image[y, x] + image[y, x + 1]
    half[y, x] = fine[2 * y, 2 * x]
    coarse[y, x] = half[y, x] + half[y + 1, x]
    out[y, x] = coarse[y, x] * coarse[y, x + 2]
    return bind(Pipeline([out.over(y=(0, 100), x=(0, 100))], name="pyramid"), {"image": (202, 206)})


def two_outputs() -> BoundPipeline:
    """Return a stencil that two outputs read."""
    image, shared, above, beside = Input("image", float32, 2), Func("shared"), Func("above"), Func("beside")
    edge = image.clamped()
    shared[y, x] = edge[y - 1, x] + edge[y + 1, x]
    above[y, x] = shared[y - 1, x] + shared[y + 1, x]
    beside[y, x] = shared[y, x - 1] + shared[y, x + 1]
    box = {"y": (0, image.shape[0]), "x": (0, image.shape[1])}
    return bind(Pipeline([above.over(**box), beside.over(**box)], name="two_outputs"), {"image": (100, 200)})


def long_chain(stages: int, reach: int) -> BoundPipeline:
    """Return a chain of sums over ``2 * reach + 1`` squared neighbourhoods at a few points each."""
    image = Input("image", float32, 2)
    current = image.clamped()
    for k in range(stages):
        s = Func(f"s{k}")
        s[y, x] = current[y - reach, x - reach] + current[y, x] + current[y + reach, x + reach]
        current = s
    out = current.over(y=(0, image.shape[0]), x=(0, image.shape[1]))
    return bind(Pipeline([out], name="long_chain"), {"image": (400, 500)})
