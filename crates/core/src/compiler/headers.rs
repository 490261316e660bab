//! The headers of `crates/core/headers`, embedded in the library.
//!
//! A kernel that is compiled alone sees nothing but these. A whole program sees the system's headers, those of
//! `headers/program`, and what both kinds share.
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
    header!("gpulend/packed.h"),
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
    header!("gpulend/allocation.h"),
    header!("gpulend/small_floats.h"),
    header!("assert.h"),
    header!("cooperative_groups.h"),
    header!("cuda.h"),
    header!("cuda_bf16.h"),
    header!("cuda_fp16.h"),
    header!("cuda_fp8.h"),
    header!("mma.h"),
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
    ("cuda_fp8.hpp", "cuda_fp8.h"),
];

macro_rules! program_header {
    ($name:literal) => {
        ($name, include_str!(concat!("../../headers/program/", $name)))
    };
}

/// The headers of whole programs that only those have.
const PROGRAM: &[(&str, &str)] = &[
    program_header!("cuComplex.h"),
    program_header!("cuda.h"),
    program_header!("cuda_runtime.h"),
    program_header!("cuda_runtime_api.h"),
    program_header!("curand_kernel.h"),
    program_header!("driver_types.h"),
    program_header!("math_constants.h"),
    program_header!("vector_types.h"),
    ("cudaTypedefs.h", "#include <cuda.h>\n"),
    ("gpulend/driver_memory.h", include_str!("../../headers/program/driver_memory.h")),
    ("gpulend/driver_objects.h", include_str!("../../headers/program/driver_objects.h")),
    ("gpulend/half_on_host.h", include_str!("../../headers/program/half_on_host.h")),
    ("gpulend/host_side.h", include_str!("../../headers/program/host_side.h")),
    // Found before those of NVIDIA's, which they include.
    (
        "gpulend/nvcc/cuda/std/__cccl/compiler.h",
        include_str!("../../headers/program/nvcc/compiler.h"),
    ),
    ("gpulend/nvcc/nv/target", include_str!("../../headers/program/nvcc/target.h")),
    ("gpulend/older.h", include_str!("../../headers/program/older.h")),
    ("gpulend/per_thread.h", include_str!("../../headers/program/per_thread.h")),
    ("gpulend/plain_host.h", include_str!("../../headers/program/plain_host.h")),
    ("gpulend/runtime_templates.h", include_str!("../../headers/program/runtime_templates.h")),
    ("gpulend/standards.h", include_str!("../../headers/program/standards.h")),
    ("gpulend/textures.h", include_str!("../../headers/program/textures.h")),
];

/// Headers of NVIDIA's whose content `cuda_runtime.h` has.
const IN_RUNTIME: &[&str] = &[
    "builtin_types.h",
    "channel_descriptor.h",
    "cuda_device_runtime_api.h",
    "cuda_gl_interop.h",
    "cuda_profiler_api.h",
    "cuda_texture_types.h",
    "device_atomic_functions.h",
    "device_functions.h",
    "device_launch_parameters.h",
    "device_types.h",
    "host_config.h",
    "host_defines.h",
    "math_functions.h",
    "sm_20_atomic_functions.h",
    "sm_20_intrinsics.h",
    "sm_30_intrinsics.h",
    "sm_32_intrinsics.h",
    "sm_35_intrinsics.h",
    "sm_60_atomic_functions.h",
    "surface_functions.h",
    "surface_types.h",
    "texture_fetch_functions.h",
    "texture_indirect_functions.h",
    "texture_types.h",
    "vector_functions.h",
    "vector_functions.hpp",
];

/// What kernels alone have: a whole program has the system's.
const KERNELS_ONLY: &[&str] = &["assert.h", "cuda.h"];

/// The name and text of every header that a whole program finds besides the system's.
#[must_use]
pub fn program_headers() -> Vec<(&'static str, String)> {
    let shared = HEADERS.iter().filter(|(name, _)| !KERNELS_ONLY.contains(name));
    let whole = shared.chain(PROGRAM).map(|&(name, text)| (name, text.to_owned()));
    let inside = IN_RUNTIME.iter().map(|&name| (name, "#include <cuda_runtime.h>\n".to_owned()));
    let same = SAME_AS.iter().filter(|(name, _)| *name != "cassert");
    let same = same.map(|&(name, other)| (name, format!("#include <{other}>\n")));
    whole.chain(inside).chain(same).collect()
}
