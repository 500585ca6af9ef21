"""Rewrites of a bound pipeline into an equal one that offers other schedules.

Rewrites are data (`rewrite`), applied by `autosched.analysis.rewrites.rewrite.apply`. One module each builds them:
windows by doubling (`window_doubling`), deinterleaved reads (`deinterleaving`), hoisted invariants
(`invariant_hoisting`), unrolled reductions (`reduction_unrolling`), narrow integers (`integer_narrowing`), reduction
factoring (`rfactor`), folded values (`computation_folding`), retimed sums (`retiming`), split expressions
(`expression_fission`) and components (`component_fission`), fusion of independent outputs (`horizontal_fusion`), clones
of Funcs (`func_cloning`), copies of operands (`cache_read`), loops over the lanes of a warp (`lane_loops`) and one step
of a mainloop (`mainloop_step`). All but the last three use `rebuild`, which replaces reads and Funcs.
"""

from autosched.analysis.rewrites import (  # noqa: F401 - each registers its rewrites
    cache_read,
    component_fission,
    computation_folding,
    deinterleaving,
    expression_fission,
    func_cloning,
    horizontal_fusion,
    integer_narrowing,
    invariant_hoisting,
    lane_loops,
    mainloop_step,
    reduction_unrolling,
    retiming,
    rfactor,
    window_doubling,
)
