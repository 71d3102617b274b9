"""Measures smallmm beside its peers and the limits of the machine, and reports what was found: README.md."""
