//! Import of a bare address: the caller claims what is there, the driver or the kernel verifies it.
//!
//! ```
//! use gpulend::import::raw::{Claim, wrap_checked};
//! use gpulend::ledger::Name;
//! use gpulend::{Dtype, Owner, copy};
//!
//! let frame: Box<[f32]> = Box::new([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//! let claim = Claim {
//!     address: frame.as_ptr().expose_provenance() as u64,
//!     shape: &[2, 3],
//!     strides: None,
//!     dtype: Dtype::FLOAT32,
//!     device: None,
//!     readonly: true,
//!     check: true,
//! };
//! let checked = claim.verify()?;
//! // The owner keeps the bytes, and nothing writes them.
//! let lease = unsafe { wrap_checked(checked, || Owner::keep(frame), None, Name::intern("a camera")) }?;
//! assert_eq!(unsafe { copy::to_vec::<f32>(&lease.transposed()) }?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
//!
//! let fabricated = Claim { address: 1 << 60, ..claim };
//! assert_eq!(fabricated.verify().map(|_| ()).unwrap_err().code(), 404);
//! # Ok::<(), gpulend::Error>(())
//! ```

use std::sync::Arc;

use crate::device::{Device, DeviceKind, Memory};
use crate::driver::{Driver, Known, Passport, driver, in_use, present};
use crate::dtype::Dtype;
use crate::error::{AddressError, Error};
use crate::host;
use crate::import::{opencl, timeline_of};
use crate::layout::{Layout, Measure};
use crate::lease::Lease;
use crate::ledger::Name;
use crate::owner::Owner;
use crate::stream::{Ready, Stream, Timeline};
use crate::view::{self, View};

/// What a caller says about an address, not verified.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// The address of the first element.
    pub address: u64,
    /// Extents.
    pub shape: &'a [i64],
    /// Strides in elements; `None` for a compact array.
    pub strides: Option<&'a [i64]>,
    /// Element type.
    pub dtype: Dtype,
    /// The device; `None` lets the driver decide.
    pub device: Option<Device>,
    /// Whether writing is forbidden.
    pub readonly: bool,
    /// Whether to check that the memory exists.
    pub check: bool,
}

/// A verified claim.
#[derive(Clone, Debug)]
pub struct Checked {
    view: View,
    /// The lowest byte and how many there are.
    extent: (u64, u64),
    /// An address of the allocation and its buffer id, if the driver knows it.
    allocation: Option<(u64, u64)>,
    /// The device whose streams may work on it; pinned memory has one too.
    ordinal: u8,
}

impl Checked {
    /// The index of the device whose streams may work on it.
    #[must_use]
    pub const fn ordinal(&self) -> u8 {
        self.ordinal
    }

    /// The view.
    #[must_use]
    pub const fn view(&self) -> &View {
        &self.view
    }
}

impl Claim<'_> {
    /// Checks the claim and makes a view of it.
    ///
    /// # Errors
    ///
    /// If it is not an array, or the memory does not exist, is too short, or is on another device.
    pub fn verify(&self) -> Result<Checked, Error> {
        let measured @ (_, Measure { span, .. }) =
            Layout::measured(self.shape, self.strides, self.dtype)?;
        // Before alignment: for an address that does not exist, this is the more useful error.
        let low = self.address.checked_add_signed(span.low).filter(|low| *low > 0);
        let found = match low.filter(|_| span.bytes() > 0) {
            Some(low) => self.find((low, span.bytes()))?,
            None => {
                let device = self.device.unwrap_or(Device::CPU);
                Place { device, ordinal: device.index(), ..Place::HOST }
            }
        };
        let place = (found.device, found.memory);
        let view = View::of_layout(self.address, place, self.dtype, measured, self.readonly)?;
        let extent = (self.address.wrapping_add_signed(span.low), span.bytes());
        Ok(Checked { view, extent, allocation: found.allocation, ordinal: found.ordinal })
    }

    /// The device and kind of the memory.
    fn find(&self, extent: (u64, u64)) -> Result<Place, Error> {
        let (low, bytes) = extent;
        let wanted = self.device;
        let on_gpu = match wanted.map(|device| (device, device.kind())) {
            Some((device, DeviceKind::OpenCl)) => return Err(opencl(device).into()),
            Some((device, DeviceKind::Cuda)) => Some(device),
            _ => None,
        };
        let driver = match on_gpu {
            Some(_) => Some(driver()?),
            // A driver that does not start has not pinned any host memory.
            None => present().ok().flatten(),
        };
        if let (Some(driver), Some(device)) = (driver, on_gpu) {
            driver.require_device(device.index())?;
        }
        if let (Some(device), false) = (wanted, self.check) {
            let memory = if on_gpu.is_some() { Memory::Device } else { Memory::Host };
            return Ok(Place { device, memory, allocation: None, ordinal: device.index() });
        }
        let passport = driver.map_or(Ok(None), |driver| driver.locate(low))?;
        if let (Some(driver), Some(passport)) = (driver, passport) {
            return judge(driver, &passport, extent, wanted, self.check);
        }
        // The first element may be in device memory although the lowest byte is not.
        if let Some(driver) = driver.filter(|_| low != self.address)
            && let Some(passport) = driver.locate(self.address)?.filter(is_of_device)
        {
            let (base, size) = (passport.base, passport.size);
            let needed = bytes;
            return Err(AddressError::PastEnd { address: low, needed, base, size, found: 0 }.into());
        }
        if let (Some(driver), Some(device)) = (driver, on_gpu) {
            let (device, nearest) = (device.to_string().into(), driver.nearest(low));
            return Err(AddressError::Unknown { address: low, device, nearest }.into());
        }
        if self.check {
            host::check_mapped(low, bytes)?;
        }
        Ok(Place::HOST)
    }
}

/// Checks that memory described by an unknown producer exists: with the driver, or with the kernel for host memory.
///
/// # Errors
///
/// If it is not allocated or mapped, is too short, or is on another device.
pub fn confirm(view: &View) -> Result<(), Error> {
    let extent @ (low, bytes) = view.extent();
    if bytes == 0 {
        return Ok(());
    }
    let (device, driver) = (view.device(), in_use());
    let passport = driver.map_or(Ok(None), |driver| driver.locate(low))?;
    match (driver, passport) {
        (Some(driver), Some(passport)) => {
            // Memory of a simulated GPU is exported as host memory.
            let any = device == Device::CPU && driver.is_simulated();
            judge(driver, &passport, extent, Some(device).filter(|_| !any), true).map(drop)
        }
        _ if device == Device::CPU => Ok(host::check_reachable(low, bytes)?),
        (driver, _) => {
            let nearest = driver.map_or_else(Box::default, |driver| driver.nearest(low));
            let device = device.to_string().into();
            Err(AddressError::Unknown { address: low, device, nearest }.into())
        }
    }
}

fn is_of_device(passport: &Passport) -> bool {
    passport.device.kind() == DeviceKind::Cuda
}

/// The device, kind and allocation of memory.
struct Place {
    device: Device,
    memory: Memory,
    allocation: Option<(u64, u64)>,
    ordinal: u8,
}

impl Place {
    const HOST: Self =
        Self { device: Device::CPU, memory: Memory::Host, allocation: None, ordinal: 0 };
}

/// The law "Checked addresses" of `docs/laws.md`: a live allocation, long enough, on the right device, in the primary context.
fn judge(
    driver: &'static Driver,
    passport: &Passport,
    (low, bytes): (u64, u64),
    wanted: Option<Device>,
    check: bool,
) -> Result<Place, Error> {
    let device = passport.device;
    let ordinal = passport.ordinal;
    let place = Place { device, memory: passport.memory, allocation: None, ordinal };
    if !check {
        return Ok(place);
    }
    // The host can use managed memory too.
    if wanted == Some(Device::CPU) && passport.memory == Memory::Managed {
        return Ok(Place::HOST);
    }
    if let Some(wanted) = wanted.filter(|wanted| *wanted != device) {
        let (found, wanted) = (device.to_string().into(), wanted.to_string().into());
        return Err(AddressError::OtherDevice { address: low, found, wanted }.into());
    }
    let there = passport.base.saturating_add(passport.size).saturating_sub(low);
    if there < bytes {
        let (base, size) = (passport.base, passport.size);
        return Err(AddressError::PastEnd {
            address: low,
            needed: bytes,
            base,
            size,
            found: there,
        }
        .into());
    }
    // A reservation may be mapped in part, so the other end is checked too.
    let last = low + (bytes - 1);
    if passport.known == Known::Reservation && driver.buffer_id(last)?.is_none() {
        let (device, nearest) = (device.to_string().into(), driver.nearest(last));
        return Err(AddressError::Unknown { address: last, device, nearest }.into());
    }
    if let (DeviceKind::Cuda, Some(context)) = (device.kind(), passport.context)
        && !driver.is_primary(context, device.index())?
    {
        let device = device.to_string().into();
        return Err(AddressError::OtherContext { address: low, context, device }.into());
    }
    Ok(Place { allocation: Some((low, passport.buffer_id)), ..place })
}

/// Makes a lease of a validated view of host memory.
///
/// # Safety
///
/// 1. Until `owner` is released, the bytes of the view's extent can be read.
/// 2. Unless the view is read-only, they can be written too.
/// 3. Nothing writes them while gpulend copies from or to them.
#[must_use]
pub unsafe fn wrap(view: View, owner: Owner, who: Name) -> Lease {
    Lease::new(view, owner, who)
}

/// Makes a lease of a verified claim. `ready` says when the bytes are valid; without it, after the work that the legacy
/// default stream of its device has now.
///
/// # Safety
///
/// As [`wrap`] for the result of `owner`. For device memory, "gpulend copies" lasts until the copy is done, and writing on a
/// stream that the lease knows is allowed by (3).
///
/// # Errors
///
/// If the driver refuses; `owner` is not called then, so that the memory stays the caller's.
pub unsafe fn wrap_checked(
    checked: Checked,
    owner: impl FnOnce() -> Owner,
    ready: Option<Ready>,
    who: Name,
) -> Result<Lease, Error> {
    let Checked { view, extent, allocation, .. } = checked;
    let device = view.device();
    let timeline = match device.kind() {
        DeviceKind::Cuda => {
            let ready = ready.unwrap_or_else(|| Ready::On(Stream::legacy(device.index())));
            Some(Timeline::new(device.index(), ready, allocation)?)
        }
        // The host reads it without waiting for a stream.
        _ => {
            ready.map_or(Ok(()), |ready| ready.wait())?;
            None
        }
    };
    Ok(Lease::entered(view, extent, owner(), who, timeline))
}

/// A framework's description of its own array.
#[derive(Clone, Copy, Debug)]
pub struct ViewRef<'a> {
    /// The address of the first element.
    pub address: u64,
    /// The device and kind of the memory.
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

impl<'a> ViewRef<'a> {
    /// The description of a lease's view.
    #[inline(always)]
    pub(crate) fn of(view: &'a View) -> Self {
        let layout = view.layout();
        Self {
            address: view.address(),
            place: (view.device(), view.memory()),
            dtype: view.dtype(),
            shape: layout.shape(),
            strides: layout.strides(),
            readonly: view.readonly(),
        }
    }
}

/// Checks a description and makes a lease of it. Every borrowed tensor passes this. For device
/// memory `ready` says when it is valid.
///
/// # Safety
///
/// As [`wrap`], for the described array and the result of `owner`.
///
/// # Errors
///
/// If it describes an array that cannot be lent.
#[inline(always)]
pub unsafe fn enter(
    view: ViewRef<'_>,
    owner: impl FnOnce() -> Owner,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> Result<Lease, Error> {
    let ViewRef { address, place, dtype, shape, strides, readonly } = view;
    let span = view::check(address, dtype, (shape, strides))?.span;
    let extent = (address.wrapping_add_signed(span.low), span.bytes());
    if place.0.kind() == DeviceKind::Cpu {
        let view = View::of_checked(address, place, dtype, (shape, strides), readonly);
        return Ok(Lease::entered(view, extent, owner(), who, None));
    }
    // SAFETY: the contract.
    unsafe { enter_device(view, extent, owner, ready, who) }
}

/// The rest of [`enter`] for device memory: separate, because most arrays are in host memory.
///
/// # Safety
///
/// As [`enter`], for a checked description.
#[inline(never)]
unsafe fn enter_device(
    view: ViewRef<'_>,
    extent: (u64, u64),
    owner: impl FnOnce() -> Owner,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> Result<Lease, Error> {
    let ViewRef { address, place, dtype, shape, strides, readonly } = view;
    // Before `ready` is called, which may run code that changes the description.
    let view = View::of_checked(address, place, dtype, (shape, strides), readonly);
    let owner = owner();
    let timeline = timeline_of(place.0, extent, ready)?;
    Ok(Lease::entered(view, extent, owner, who, timeline))
}

/// As [`enter`], for device memory whose timeline other leases share.
///
/// # Safety
///
/// As [`enter`]; and the other holders of the timeline ensure that the memory outlives the work on it.
pub(crate) unsafe fn enter_sharing(
    view: ViewRef<'_>,
    owner: Owner,
    timeline: Arc<Timeline>,
    who: Name,
) -> Result<Lease, Error> {
    let ViewRef { address, place, dtype, shape, strides, readonly } = view;
    let span = view::check(address, dtype, (shape, strides))?.span;
    let extent = (address.wrapping_add_signed(span.low), span.bytes());
    let view = View::of_checked(address, place, dtype, (shape, strides), readonly);
    Ok(Lease::entered(view, extent, owner, who, Some(timeline)))
}
