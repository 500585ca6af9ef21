"""Small pipelines with costs and compute locations that can be computed by hand."""

from __future__ import annotations

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline

c, y, x = Var("c"), Var("y"), Var("x")


def pair() -> BoundPipeline:
    """Return ``mid[x] = img[x] + img[x + 1]`` and ``out[x] = mid[x] + mid[x + 2]`` over 4096 points."""
    img, mid, out = Input("img", float32, 1), Func("mid"), Func("out")
    mid[x] = img[x] + img[x + 1]
    out[x] = mid[x] + mid[x + 2]
    return bind(Pipeline([out.over(x=(0, 4096))], name="pair"), {"img": (4099,)})


def figure_4() -> Pipeline:
    """Return stages K, H, W and Z of the paper's Figure 4; W sums the three channels of K."""
    image = Input("E", float32, 2)
    e = image.clamped()
    k, h, w, z = Func("K"), Func("H"), Func("W"), Func("Z")
    k[c, y, x] = (e[y, x] + e[y, x + 1] + e[y, x + 2]) * (c + 1)
    h[y, x] = e[y, x] * 4
    w[y, x] = k[0, y, x] + k[1, y, x] + k[2, y, x] + h[y, x] * 2
    z[y, x] = w[y - 2, x] + w[y - 1, x] + w[y, x] + w[y + 1, x] + w[y + 2, x]
    return Pipeline([z.over(y=(0, image.shape[0]), x=(0, image.shape[1]))], name="figure_4")


def two_readers() -> Pipeline:
    """Return a blur with two outputs as readers."""
    img = Input("img", float32, 2)
    edge = img.clamped()
    blur, above, beside = Func("blur"), Func("above"), Func("beside")
    blur[y, x] = edge[y - 1, x] + edge[y, x] + edge[y + 1, x]
    above[y, x] = blur[y - 1, x] + blur[y + 1, x]
    beside[y, x] = blur[y, x - 1] + blur[y, x + 1]
    box = {"y": (0, img.shape[0]), "x": (0, img.shape[1])}
    return Pipeline([above.over(**box), beside.over(**box)], name="two_readers")
