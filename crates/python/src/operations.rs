//! What `gpulend.operations` asks of a kernel: its parameters, and whether arrays would suit them.

use gpulend::import::raw::ViewRef;
use gpulend::kernel::{Keep, elements_of};
use gpulend::ledger::Name;
use gpulend::signature::{Parameter, Scalar, Type};
use gpulend::{Device, DeviceKind, Dtype, Error, Memory, SignatureError};
use pyo3::prelude::*;
use smallvec::{SmallVec, smallvec};

use crate::errors::{raise, raise_with};
use crate::hints;
use crate::kernel::PyKernel;

/// Name, type, role, whether it may be written, the type of an array's elements, and all that it accepts.
type Described =
    (Option<String>, String, &'static str, bool, Option<&'static str>, Vec<&'static str>);

/// The parameters of a kernel: of each its name, its type, its role ("array", "integer", "float", "bool" or "other"), whether the
/// kernel may write through it, the type of an array's elements if there is one, and the types of elements that it accepts.
#[pyfunction]
#[pyo3(signature = (kernel, /))]
pub(crate) fn kernel_parameters(kernel: &Bound<'_, PyKernel>) -> Vec<Described> {
    kernel.get().kernel().signature().parameters.iter().map(describe).collect()
}

fn describe(parameter: &Parameter) -> Described {
    let name = parameter.name.as_deref().map(str::to_owned);
    let bytes = || format!("<{} bytes>", parameter.size);
    let kind = parameter.kind.as_ref().map_or_else(bytes, ToString::to_string);
    match &parameter.kind {
        Some(Type::Pointer { to, constant }) => {
            let fits = elements_of(to).map(Dtype::name).collect();
            (name, kind, "array", !constant, to.dtype().map(Dtype::name), fits)
        }
        Some(Type::Scalar(scalar)) => (name, kind, role(*scalar), false, None, Vec::new()),
        Some(_) | None => (name, kind, "other", false, None, Vec::new()),
    }
}

const fn role(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Char | Scalar::Int { .. } => "integer",
        Scalar::Float16 | Scalar::BFloat16 | Scalar::Float32 | Scalar::Float64 => "float",
        // Passed as bytes.
        Scalar::Float8E4M3 | Scalar::Float8E5M2 => "other",
    }
}

/// Raise what a launch would raise for an array of these elements, this shape and this device, row-major contiguous, as the
/// argument at this position, counted from 0. `cls` is the array's class.
#[pyfunction]
#[pyo3(signature = (kernel, position, dtype, shape, device, cls, /))]
pub(crate) fn check_array(
    kernel: &Bound<'_, PyKernel>,
    position: usize,
    dtype: &str,
    shape: Vec<i64>,
    device: &str,
    cls: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let dtype: Dtype = dtype.parse().map_err(raise)?;
    let device: Device = device.parse().map_err(raise)?;
    let memory = if device.kind() == DeviceKind::Cpu { Memory::Host } else { Memory::Device };
    let strides = contiguous(&shape);
    // No memory is touched; every type is aligned there.
    let view = ViewRef {
        address: 1 << 12,
        place: (device, memory),
        dtype,
        shape: &shape,
        strides: &strides,
        readonly: false,
    };
    let what = format!("{}.{}", cls.getattr("__module__")?, cls.getattr("__name__")?);
    let kernel = kernel.get().kernel();
    let checked = kernel.check_array(position, &view, Keep::Host, Name::intern_passing(&what));
    checked.map_err(|error| explain(error, cls))
}

/// Says why the core refuses an array, with the call of its framework that helps.
fn explain(error: Error, cls: &Bound<'_, PyAny>) -> PyErr {
    if let Error::Signature(SignatureError::Dtype { place, fits, .. }) = &error {
        let name = place.name.as_deref().unwrap_or("array");
        let call = cls.py().import("gpulend._arguments").and_then(|module| {
            module.call_method1("conversion", (cls, name, fits.to_vec()))?.extract::<String>()
        });
        if let Ok(call) = call {
            return raise_with(error, |hint| hints::converting(hint, &call));
        }
    }
    raise(error)
}

/// The strides of a row-major array.
pub(crate) fn contiguous(shape: &[i64]) -> SmallVec<[i64; 8]> {
    let mut strides: SmallVec<[i64; 8]> = smallvec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}
