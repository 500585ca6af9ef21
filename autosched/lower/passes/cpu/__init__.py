"""Passes over kernel IR for the C backend, and the analyses that they ask.

They form lane loops that C compilers vectorise. Begin with `distribute_lane_loop`, which makes such a loop innermost.
"""
