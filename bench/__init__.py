"""Benchmarks of Pilothouse, each measured beside its peers in one run (`make bench`)."""
