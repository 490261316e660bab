//! What a consumer accepts: its limits in one table, the checks against it, and the proof of what it made.
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
    writes: Writes,
    /// Whether its arrays can have negative strides.
    negative_strides: bool,
}

/// Whether a consumer writes memory that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It can: nothing in its arrays marks them read-only.
    Unmarked,
    /// Not what is marked read-only, and it can mark its arrays.
    Marked,
    /// It never writes what it was lent, marked or not.
    Never,
}

/// How a consumer sees memory that may be read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// As it is.
    Unchanged,
    /// By a writable alias: the consumer never writes, or the caller allowed it.
    Alias,
    /// By a writable alias of what its producer promised never to write again: the user should be warned.
    Doubtful,
}

impl Consumer {
    /// A consumer with its limits.
    pub fn new(
        name: &str,
        types: impl IntoIterator<Item = Dtype>,
        writes: Writes,
        negative_strides: bool,
    ) -> Self {
        let mut table = [0; 19];
        for dtype in types {
            table[usize::from(dtype.code())] |= width_bit(dtype);
        }
        Self { name: name.into(), who: Name::intern(name), types: table, writes, negative_strides }
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

    /// Decides how the consumer sees memory that may be read-only; what it still must not see, [`Self::check`] refuses.
    ///
    /// Immutable memory, which its producer promised never to write again though nothing marks it, goes to a consumer that
    /// cannot mark it either; that is doubtful unless the caller allowed a writable alias.
    #[must_use]
    #[inline]
    pub const fn admit(&self, view: &View, allow_writable_alias: bool) -> Admitted {
        if !view.readonly() {
            return Admitted::Unchanged;
        }
        match self.writes {
            Writes::Marked => Admitted::Unchanged,
            Writes::Never => Admitted::Alias,
            Writes::Unmarked if allow_writable_alias => Admitted::Alias,
            Writes::Unmarked if view.immutable() => Admitted::Doubtful,
            Writes::Unmarked => Admitted::Unchanged,
        }
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
        if view.readonly() && self.writes != Writes::Marked {
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

    /// Law 1: an array that the consumer made of a view is at the view's address, or there is an error.
    ///
    /// # Errors
    ///
    /// If the array is elsewhere, and has elements.
    #[inline]
    pub fn prove(&self, view: &View, address: u64) -> Result<(), ExportError> {
        if address == view.address() || view.layout().is_empty() {
            return Ok(());
        }
        Err(self.copied(view, address))
    }

    #[cold]
    fn copied(&self, view: &View, found: u64) -> ExportError {
        ExportError::NotZeroCopy { consumer: self.name.clone(), found, wanted: view.address() }
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
            let consumer = Consumer::new("test", [chosen], Writes::Marked, true);
            for dtype in Dtype::all() {
                let expected = dtype == chosen && !dtype.is_packed();
                assert_eq!(consumer.takes_type(dtype), expected, "{chosen} {dtype}");
            }
        }
    }
}
