"""Passes over kernel IR: from one legal kernel to an equal one.

Begin with `number_accesses`, the smallest. Passes for C alone are in `cpu`.
"""
