//! The proof that the reader reads what torch says: tensors made for it, each with the outcome that reading it must have.

use pyo3::intern;
use pyo3::prelude::*;

use super::reader::{On, Read, Reader};

/// A tensor of exactly torch's types.
pub(super) struct Sample<'py> {
    pub(super) tensor: Bound<'py, PyAny>,
    /// The address of its `TensorImpl`, as torch gives it.
    pub(super) tensor_impl: usize,
    /// The outcome, in a word: see [`outcome`].
    wanted: String,
}

/// The Python half of what is known of torch.
pub(super) fn adapter(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "gpulend.adapters.torch"))
}

impl<'py> Sample<'py> {
    /// All of them, which the adapter makes.
    pub(super) fn all(py: Python<'py>) -> PyResult<Vec<Self>> {
        let samples: Vec<(Bound<'py, PyAny>, usize, String)> =
            adapter(py)?.call_method0("samples")?.extract()?;
        let sample = |(tensor, tensor_impl, wanted)| Self { tensor, tensor_impl, wanted };
        Ok(samples.into_iter().map(sample).collect())
    }

    /// Whether it has memory that can be lent.
    pub(super) fn is_plain(&self) -> bool {
        self.wanted == "plain"
    }

    /// Whether the reader reads of it what torch says in Python.
    pub(super) fn agrees(&self, reader: &Reader) -> PyResult<bool> {
        let Self { tensor, .. } = self;
        // SAFETY: (1) samples are torch's own; (2) what is read is copied at once.
        let found = match unsafe { reader.read(tensor, On::Any, true) } {
            found if outcome(&found) != self.wanted => return Ok(false),
            Read::Plain(view) | Read::Tracked(view) => {
                (view.address, view.shape.to_vec(), view.strides.to_vec(), view.dtype.name())
            }
            Read::Elsewhere | Read::Refused | Read::Unknown => return Ok(true),
        };
        let said: (u64, Vec<i64>, Vec<i64>) = (
            tensor.call_method0("data_ptr")?.extract()?,
            tensor.getattr("shape")?.extract()?,
            tensor.call_method0("stride")?.extract()?,
        );
        let dtype = tensor.getattr("dtype")?.str()?.to_string();
        Ok((found.0, found.1, found.2) == said && dtype == format!("torch.{}", found.3))
    }
}

/// What the adapter calls an outcome.
const fn outcome(read: &Read<'_>) -> &'static str {
    match read {
        Read::Plain(_) => "plain",
        Read::Tracked(_) => "tracked",
        Read::Elsewhere => "elsewhere",
        Read::Refused => "refused",
        Read::Unknown => "unknown",
    }
}
