"""The code generator of Forma (Ravishankar et al. 2015): stencils fused by overlapped tiles, sized by rules."""
