"""Benchmarks on the CPU."""
