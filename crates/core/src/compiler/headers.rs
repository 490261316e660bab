//! The headers of `crates/core/headers`, embedded in the library.
#![forbid(unsafe_code)]

/// The folder of gpulend's headers during a compilation. No caller would name a folder like this.
pub(super) const OURS: &str = "gpulend-headers";

macro_rules! header {
    ($name:literal) => {
        ($name, include_str!(concat!("../../headers/", $name)))
    };
}

/// Every header with content, by its include name.
pub(super) const HEADERS: &[(&str, &str)] = &[
    header!("gpulend/prelude.h"),
    header!("gpulend/keywords.h"),
    header!("gpulend/integers.h"),
    header!("gpulend/traits.h"),
    header!("gpulend/vectors.h"),
    header!("gpulend/indices.h"),
    header!("gpulend/bits.h"),
    header!("gpulend/casts.h"),
    header!("gpulend/libm.h"),
    header!("gpulend/math.h"),
    header!("gpulend/overloads.h"),
    header!("gpulend/intrinsics.h"),
    header!("gpulend/barriers.h"),
    header!("gpulend/warp.h"),
    header!("gpulend/atomics.h"),
    header!("gpulend/loads.h"),
    header!("gpulend/bytes.h"),
    header!("gpulend/output.h"),
    header!("gpulend/small_floats.h"),
    header!("assert.h"),
    header!("cooperative_groups.h"),
    header!("cuda.h"),
    header!("cuda_bf16.h"),
    header!("cuda_fp16.h"),
];

/// Headers whose declarations are already in the prelude.
pub(super) const IN_PRELUDE: &[&str] = &[
    "algorithm",
    "cfloat",
    "climits",
    "cmath",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "float.h",
    "limits",
    "limits.h",
    "math.h",
    "math_constants.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "type_traits",
    "utility",
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "device_atomic_functions.h",
    "device_functions.h",
    "device_launch_parameters.h",
    "driver_types.h",
    "math_functions.h",
    "sm_30_intrinsics.h",
    "surface_functions.h",
    "surface_types.h",
    "texture_fetch_functions.h",
    "texture_types.h",
    "vector_functions.h",
    "vector_types.h",
];

/// Headers that are aliases of others.
pub(super) const SAME_AS: &[(&str, &str)] = &[
    ("cassert", "assert.h"),
    ("cooperative_groups/reduce.h", "cooperative_groups.h"),
    ("cuda_bf16.hpp", "cuda_bf16.h"),
    ("cuda_fp16.hpp", "cuda_fp16.h"),
];
