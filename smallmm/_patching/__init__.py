"""NumPy and PyTorch with smallmm's kernels, and programs that are run so."""
