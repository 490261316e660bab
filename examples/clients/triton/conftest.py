"""The one line by which the kernels run where there is no GPU; with one, it changes nothing."""

import gpulend.triton  # noqa: F401
