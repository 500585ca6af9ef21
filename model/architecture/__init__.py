"""The network: layers, cost components, ensembles, and the loss.

Begin with `network`.
"""
