"""Passes over kernel IR: rewrites of a legal kernel to an equivalent one.

`autosched.lower.pipelines` lists them in order. Begin with `number_accesses`, the smallest. Passes for C are in `cpu`.
"""
