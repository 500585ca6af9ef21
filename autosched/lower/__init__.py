"""Lowering: a bound pipeline and a schedule become kernel IR."""
