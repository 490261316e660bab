"""One conformance suite for the CUDA driver API: NVIDIA's library and our simulated one."""
