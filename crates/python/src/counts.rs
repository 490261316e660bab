//! How often each route was taken, for tests that a fast one is, and for `gpulend doctor`.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A route that is counted: how an object was borrowed or read, or how a launch went.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    Lease,
    Capsule,
    /// By libtorch's functions: see `torch`.
    TorchNative,
    TorchTable,
    TorchDlpack,
    Exchange,
    /// By its fields: see `cupy`.
    CupyNative,
    Cupy,
    Adapted,
    NumPyNative,
    NumPyDlpack,
    Dlpack,
    CudaInterface,
    ArrayInterface,
    Buffer,
    Ctypes,
    Pointer,
    LaunchFast,
    LaunchGeneral,
    /// A call of `gpulend.torch.op`'s that went past the dispatcher, and one that it was asked.
    OperationNative,
    OperationDispatched,
}

const NAMES: [&str; 21] = [
    "gpulend.Lease",
    "DLPack capsule",
    "torch: native reader",
    "torch: exchange table",
    "torch: __dlpack__",
    "exchange table",
    "CuPy: native reader",
    "CuPy: attributes",
    "adapter",
    "NumPy: native reader",
    "NumPy: __dlpack__",
    "__dlpack__",
    "__cuda_array_interface__",
    "__array_interface__",
    "buffer protocol",
    "ctypes object",
    "ctypes pointer",
    "launch: fast path",
    "launch: general",
    "torch operation: native",
    "torch operation: dispatcher",
];

static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

/// Counts one more. The caller holds the GIL, so nobody comes between: a locked addition would cost more.
#[inline(always)]
pub(crate) fn count(what: Counted) {
    let place = &COUNTS[what as usize];
    place.store(place.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// How often each route was taken in this process, by its name.
///
/// >>> import gpulend, gpulend._native
/// >>> before = gpulend._native.route_counts()["buffer protocol"]
/// >>> lease = gpulend.borrow(b"bytes")
/// >>> gpulend._native.route_counts()["buffer protocol"] - before
/// 1
#[pyfunction]
pub(crate) fn route_counts(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let counts = PyDict::new(py);
    for (name, count) in NAMES.iter().zip(&COUNTS) {
        counts.set_item(name, count.load(Ordering::Relaxed))?;
    }
    Ok(counts)
}
