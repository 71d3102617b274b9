"""Benchmarks on NVIDIA GPUs."""
