"""The public functions: signatures, options, docstrings."""
