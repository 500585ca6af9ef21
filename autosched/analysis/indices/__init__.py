"""Symbolic integer indices: what coordinates, shapes and literals become once a pipeline is bound.

Begin with `index`, whose functions build and take apart index expressions; the other modules prove things about them
(ranges, equality, overflow) or turn expressions of the language into them (`to_index`).
"""
