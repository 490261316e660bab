"""Kernels launched through gpulend, on the simulated GPU or a real one."""
