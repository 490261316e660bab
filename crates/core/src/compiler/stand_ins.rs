//! Empty or small headers for NVRTC where its own are missing. It has most of their functions built in.
#![forbid(unsafe_code)]

macro_rules! header {
    ($name:literal) => {
        ($name, include_str!(concat!("../../headers/nvrtc/", $name)))
    };
}

const KNOWN: &str = "// NVRTC knows all of this by itself.\n";

/// The name and text of each.
pub(super) const STAND_INS: &[(&str, &str)] = &[
    header!("cmath"),
    header!("cstdint"),
    header!("cuda.h"),
    header!("float.h"),
    header!("limits.h"),
    header!("math.h"),
    header!("stddef.h"),
    header!("stdint.h"),
    ("assert.h", KNOWN),
    ("cassert", KNOWN),
    ("cfloat", "#include <float.h>\n"),
    ("climits", "#include <limits.h>\n"),
    ("cstddef", "#include <stddef.h>\n"),
    ("cstdio", KNOWN),
    ("cstdlib", KNOWN),
    ("cstring", KNOWN),
    ("cuda_runtime.h", KNOWN),
    ("cuda_runtime_api.h", KNOWN),
    ("device_launch_parameters.h", KNOWN),
    ("stdio.h", KNOWN),
    ("stdlib.h", KNOWN),
    ("string.h", KNOWN),
    ("vector_types.h", KNOWN),
];

/// Whether NVRTC cannot compile NVIDIA's own header of this name, because it declares driver functions.
pub(super) fn always(name: &str) -> bool {
    name == "cuda.h"
}
