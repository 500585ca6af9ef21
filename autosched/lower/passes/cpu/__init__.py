"""Passes over kernel IR for the C backend, and the analyses that they use.

They form lane loops that C compilers vectorise. Begin with `lower_thread_nests`, which calls the others in order, and
`distribute_lane_loop`, which makes a lane loop innermost.
"""
