"""Arrays on a CUDA device: their calls, smallmm's own kind of them, tuned rows."""
