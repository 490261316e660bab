//! `Lease`: a view, its owner, and a line in the ledger. What a user holds.
#![forbid(unsafe_code)]

use std::sync::{Arc, LazyLock};

use crate::dtype::Dtype;
use crate::error::{Error, LayoutError};
use crate::host;
use crate::layout::{Index, Layout};
use crate::ledger::{self, Kind, Name, Slot};
use crate::owner::Owner;
use crate::view::View;

/// Memory that somebody owns, seen through a checked view.
///
/// Clones share the one owner, which is released when the last of them is
/// gone. A sub-lease keeps the lease it was taken from.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    view: View,
    slot: Slot,
    // Last, so that the ledger has forgotten the lease when its memory goes.
    _owner: Owner,
}

impl Drop for Inner {
    fn drop(&mut self) {
        ledger::remove(&self.slot);
    }
}

impl Lease {
    /// Puts a view and the duty to release it together.
    ///
    /// `who` says in the ledger where the memory came from. Only `import` and
    /// this file make leases of addresses, so the promise that the owner keeps
    /// the view's memory alive has few places to be broken in.
    pub(crate) fn new(view: View, owner: Owner, who: Name) -> Self {
        let extent = view.extent();
        Self::entered(view, extent, owner, who)
    }

    /// As [`Lease::new`], with the extent already measured.
    #[inline(always)]
    pub(crate) fn entered(view: View, extent: (u64, u64), owner: Owner, who: Name) -> Self {
        let slot = ledger::insert(Kind::Lease, who, extent, None);
        Self(Arc::new(Inner { view, slot, _owner: owner }))
    }

    /// Allocates host memory, zeroed.
    ///
    /// # Errors
    ///
    /// If the shape overflows or there is no room.
    pub fn zeros(shape: &[i64], dtype: Dtype, who: Name) -> Result<Self, Error> {
        let layout = Layout::compact(shape, dtype)?;
        let (address, owner) = host::allocate(layout.nbytes(dtype))?;
        let view = View::host(address, dtype, layout, false)?;
        Ok(Self::new(view, owner, who))
    }

    /// Takes over a vector, as a one-dimensional array.
    ///
    /// # Errors
    ///
    /// If it is too long for a layout.
    pub fn from_vec<T: Element>(mut vector: Vec<T>) -> Result<Self, Error> {
        let extent = i64::try_from(vector.len()).map_err(|_| LayoutError::Overflow { axis: 0 })?;
        let layout = Layout::compact(&[extent], T::DTYPE)?;
        let address = vector.as_mut_ptr().expose_provenance() as u64;
        let view = View::host(address, T::DTYPE, layout, false)?;
        Ok(Self::new(view, Owner::keep(vector), Name::intern("Vec")))
    }

    /// Where the memory is and how to read it.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// Another view of the same memory, which keeps this lease. The view must lie inside this one's.
    fn sub(&self, view: View) -> Self {
        static WHO: LazyLock<Name> = LazyLock::new(|| Name::intern("a slice or view"));
        let slot = ledger::insert(Kind::SubLease, *WHO, view.extent(), Some(&self.0.slot));
        Self(Arc::new(Inner { view, slot, _owner: Owner::keep_shared(Arc::clone(&self.0)) }))
    }

    /// A slice, as [`View::index`].
    ///
    /// # Errors
    ///
    /// As [`View::index`].
    pub fn index(&self, indices: &[Index]) -> Result<Self, Error> {
        Ok(self.sub(self.view().index(indices)?))
    }

    /// The axes in reverse order.
    #[must_use]
    pub fn transposed(&self) -> Self {
        self.sub(self.view().transposed())
    }

    /// The same elements under another shape, as [`View::reshaped`].
    ///
    /// # Errors
    ///
    /// As [`View::reshaped`].
    pub fn reshaped(&self, shape: &[i64]) -> Result<Self, Error> {
        Ok(self.sub(self.view().reshaped(shape)?))
    }

    /// The same bytes read as another type, as [`View::viewed`].
    ///
    /// # Errors
    ///
    /// As [`View::viewed`].
    pub fn viewed(&self, dtype: Dtype) -> Result<Self, Error> {
        Ok(self.sub(self.view().viewed(dtype)?))
    }

    /// The same memory, not to be written through the result.
    #[must_use]
    pub fn as_readonly(&self) -> Self {
        self.sub(self.view().as_readonly())
    }

    /// The same memory, to be written through the result although this lease says read-only.
    ///
    /// For consumers that cannot be told, where the user accepts that they could write.
    #[must_use]
    pub fn as_writable_alias(&self) -> Self {
        self.sub(self.view().as_writable())
    }

    /// Hands the memory out to `who`; it stays alive as long as the export.
    #[must_use]
    pub fn export(&self, who: Name) -> Export {
        let slot = ledger::insert(Kind::Export, who, self.view().extent(), Some(&self.0.slot));
        Export { slot, lease: self.clone() }
    }

    /// Whether nobody else holds the lease.
    #[must_use]
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Asks whether nobody else holds the lease, and who does.
    ///
    /// # Errors
    ///
    /// If exports or sub-leases are alive: who holds it.
    pub fn check_unlent(&self) -> Result<(), Error> {
        if self.is_unshared() {
            return Ok(());
        }
        Err(Error::StillLent { holders: ledger::holders(&self.0.slot) })
    }

    /// Ends the lease now, if nobody else holds it.
    ///
    /// # Errors
    ///
    /// If exports or sub-leases are alive: the lease comes back, with who holds it.
    pub fn release(self) -> Result<(), (Self, Error)> {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => {
                drop(inner);
                Ok(())
            }
            Err(shared) => {
                let holders = ledger::holders(&shared.slot);
                Err((Self(shared), Error::StillLent { holders }))
            }
        }
    }
}

/// A hand-over out: a clone of the lease and a line in the ledger.
#[derive(Debug)]
pub struct Export {
    slot: Slot,
    lease: Lease,
}

impl Export {
    /// What was handed out.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Which line of the ledger this is, for [`ledger::is_live`].
    pub(crate) fn identity(&self) -> (usize, u64) {
        ledger::identify(&self.slot)
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        ledger::remove(&self.slot);
    }
}

/// Rust types that are element types.
pub trait Element: Copy + Default + Send + 'static {
    /// The element type.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($rust:ty => $name:ident),*) => {
        $(impl Element for $rust {
            const DTYPE: Dtype = Dtype::$name;
        })*
    };
}

elements!(
    i8 => INT8, i16 => INT16, i32 => INT32, i64 => INT64,
    u8 => UINT8, u16 => UINT16, u32 => UINT32, u64 => UINT64,
    f32 => FLOAT32, f64 => FLOAT64
);
