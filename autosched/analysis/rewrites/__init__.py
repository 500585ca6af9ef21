"""Rewrites of a bound pipeline into an equal one that offers other schedules.

One module each: reduction factoring (`rfactor`), fusion of independent outputs (`horizontal_fusion`), copies of
operands (`cache_read`), loops over the lanes of a warp (`lane_loops`) and one step of a mainloop (`mainloop_step`).
Begin with `rebuild`, with which all of them replace reads and stages.
"""
