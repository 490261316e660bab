//! A bare address in: the user says what lies there, the kernel says whether anything does.

use crate::device::{Device, Memory};
use crate::dtype::Dtype;
use crate::error::Error;
use crate::host;
use crate::import::require_host;
use crate::layout::Layout;
use crate::lease::Lease;
use crate::ledger::Name;
use crate::owner::Owner;
use crate::view::{self, View};

/// What somebody says about an address.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Where the first element lies.
    pub address: u64,
    /// Extents.
    pub shape: &'a [i64],
    /// Strides in elements; none for a compact array.
    pub strides: Option<&'a [i64]>,
    /// Element type.
    pub dtype: Dtype,
    /// Where the memory is.
    pub device: Device,
    /// Whether writing is forbidden.
    pub readonly: bool,
    /// Whether to ask the kernel if the memory is there.
    pub check: bool,
}

impl Claim<'_> {
    /// Checks the claim and makes a view of it.
    ///
    /// # Errors
    ///
    /// If it describes no array, or the memory is not there.
    pub fn view(&self) -> Result<View, Error> {
        require_host(self.device)?;
        let layout = match self.strides {
            Some(strides) => Layout::new(self.shape, strides, self.dtype)?,
            None => Layout::compact(self.shape, self.dtype)?,
        };
        // Asked before alignment: of an address that is nothing at all, that is the news.
        let span = layout.byte_span(self.dtype);
        let low = self.address.checked_add_signed(span.low);
        if let (true, Some(low @ 1..)) = (self.check, low) {
            host::check_mapped(low, span.bytes())?;
        }
        View::host(self.address, self.dtype, layout, self.readonly)
    }
}

/// Makes a lease of a checked view of somebody's memory.
///
/// # Safety
///
/// 1. Until `owner` is released, the bytes of the view's extent can be read.
/// 2. Unless the view is read-only, they can be written too.
/// 3. Nobody writes them while gpulend copies from or to them.
#[must_use]
pub unsafe fn wrap(view: View, owner: Owner, who: Name) -> Lease {
    Lease::new(view, owner, who)
}

/// What a framework told about an array of its own.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// Where the first element lies.
    pub address: u64,
    /// Where the memory is, and of what kind.
    pub place: (Device, Memory),
    /// Element type.
    pub dtype: Dtype,
    /// Extents.
    pub shape: &'a [i64],
    /// Strides in elements.
    pub strides: &'a [i64],
    /// Whether writing is forbidden.
    pub readonly: bool,
}

/// Checks what was told and makes a lease of it: the way of every borrowed tensor.
///
/// # Safety
///
/// As [`wrap`], for the array told about and the owner that `owner` makes.
///
/// # Errors
///
/// If it describes no array that can be lent; `owner` is not called then.
#[inline(always)]
pub unsafe fn enter(
    told: Told<'_>,
    owner: impl FnOnce() -> Owner,
    who: Name,
) -> Result<Lease, Error> {
    let Told { address, place, dtype, shape, strides, readonly } = told;
    require_host(place.0)?;
    let span = view::check(address, dtype, (shape, strides))?.span;
    let extent = (address.wrapping_add_signed(span.low), span.bytes());
    let view = View::of_checked(address, place, dtype, (shape, strides), readonly);
    Ok(Lease::entered(view, extent, owner(), who))
}
