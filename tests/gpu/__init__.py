"""One suite for GPU memory in gpulend: it runs on the simulated GPU and on a real one."""
