"""The backend of `torch.compile` against eager PyTorch on PyTorch's own samples of operators (OpInfo)."""
