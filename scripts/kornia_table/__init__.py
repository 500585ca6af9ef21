"""Functions of kornia with inputs, as users call them."""
