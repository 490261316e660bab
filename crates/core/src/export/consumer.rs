//! What a consumer accepts: its limits in one table, and the checks against it.
#![forbid(unsafe_code)]

use crate::dtype::Dtype;
use crate::error::ExportError;
use crate::ledger::Name;
use crate::view::View;

/// A framework that memory is lent to, and the limits of its arrays.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Box<str>,
    who: Name,
    /// The element types that it accepts, a bit for each DLPack code and width.
    types: [u64; 19],
    /// Whether its arrays can be read-only.
    readonly: bool,
    /// Whether its arrays can have negative strides.
    negative_strides: bool,
}

impl Consumer {
    /// A consumer with its limits.
    pub fn new(
        name: &str,
        types: impl IntoIterator<Item = Dtype>,
        readonly: bool,
        negative_strides: bool,
    ) -> Self {
        let mut table = [0; 19];
        for dtype in types {
            table[usize::from(dtype.code())] |= width_bit(dtype);
        }
        Self {
            name: name.into(),
            who: Name::intern(name),
            types: table,
            readonly,
            negative_strides,
        }
    }

    /// The framework's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name in the ledger.
    #[must_use]
    pub const fn who(&self) -> Name {
        self.who
    }

    /// Whether its arrays can be read-only.
    #[must_use]
    pub const fn takes_readonly(&self) -> bool {
        self.readonly
    }

    /// Whether its arrays can have elements of that type, not packed in less than a byte.
    #[must_use]
    pub fn takes_type(&self, dtype: Dtype) -> bool {
        let widths = self.types.get(usize::from(dtype.code())).copied().unwrap_or(0);
        !dtype.is_packed() && widths & width_bit(dtype) != 0
    }

    /// Checks that the framework can use a view without a copy.
    ///
    /// # Errors
    ///
    /// The limit that the view exceeds.
    pub fn check(&self, view: &View) -> Result<(), ExportError> {
        let consumer = || self.name.clone();
        if view.readonly() && !self.readonly {
            return Err(ExportError::ReadOnly { consumer: consumer() });
        }
        if !self.takes_type(view.dtype()) {
            let (dtype, bits_as) = (view.dtype().name().into(), view.dtype().bits_as());
            return Err(ExportError::Type { consumer: consumer(), dtype, bits_as });
        }
        if !self.negative_strides && view.layout().has_negative_stride() {
            let strides = view.layout().strides().into();
            return Err(ExportError::NegativeStrides { consumer: consumer(), strides });
        }
        Ok(())
    }
}

/// A bit for each width: 64 and 128 share none with the narrower ones.
fn width_bit(dtype: Dtype) -> u64 {
    1 << (dtype.bits().min(126) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_takes_its_types_and_no_others() {
        for chosen in Dtype::all() {
            let consumer = Consumer::new("test", [chosen], true, true);
            for dtype in Dtype::all() {
                let expected = dtype == chosen && !dtype.is_packed();
                assert_eq!(consumer.takes_type(dtype), expected, "{chosen} {dtype}");
            }
        }
    }
}
