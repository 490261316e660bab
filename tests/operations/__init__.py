"""Kernels as operations of torch and JAX: gradients, compiled programs, batches, and mistakes."""
