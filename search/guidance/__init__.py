"""Guidance of a search by an expert: streaming, tiles, memory, fusion, occupancy and registers (Artemis, section II).

Begin with `guide`.
"""
