"""The path of a call: arrays in, launches, arrays out.

Begin with `compiled`, whose `CompiledPipeline` users call.
"""
