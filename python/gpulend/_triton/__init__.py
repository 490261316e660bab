"""What Triton loads as the back end "gpulend": a driver for the simulated GPU.

Kernels are compiled by Triton's own back end for CUDA.
"""

# Triton looks for back ends while it is imported. A module of this package that is imported first
# would be found half-way, without its classes.
import triton  # noqa: F401
