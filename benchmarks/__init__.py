"""Benchmarks: `python -m benchmarks --help` says what there is."""
