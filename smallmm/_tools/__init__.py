"""What is run and not called: the command line, benchmarks, tuning, the demo."""
