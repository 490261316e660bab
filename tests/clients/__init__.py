"""Packages that take minutes to build, unmodified, on the simulated GPU."""
