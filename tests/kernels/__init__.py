"""Kernels on the driver under test: those that are right, and those with one mistake."""
