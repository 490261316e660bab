"""The two C++ modules beside this file in Python: a lease goes in, another comes back."""

import gpulend
import nanobind_scale
import numpy as np
import pybind11_scale

x = gpulend.from_host(np.arange(6, dtype=np.float32))
for module in (pybind11_scale, nanobind_scale):
    y = module.scaled(x, 10)
    print(module.__name__, y.to_host().tolist())
    try:
        module.scaled(gpulend.from_host(np.ones(6)), 10)
    except RuntimeError as error:  # gpulend::Error is a std::runtime_error
        print(error)
    try:
        module.scaled("no lease", 10)
    except TypeError as error:
        print(type(error).__name__)
