//! Device memory that gpulend allocates, in stream order: from a pool of its own, or from the driver's.
//!
//! ```
//! # // Only where there is a simulated GPU.
//! # if std::env::var_os("GPULEND_SIM_LIBRARY").is_none() { return Ok(()) }
//! use gpulend::driver::{Settings, simulate};
//! use gpulend::{Dtype, pool};
//!
//! simulate(&Settings::default())?;
//! pool::set_mode(pool::Mode::On);
//! let array = pool::empty(&[1000], Dtype::FLOAT32, "cuda:0".parse()?)?;
//! let used = pool::usage(0);
//! assert_eq!((used.live, used.reserved), (4096, 2 << 20));
//!
//! // The block is kept for the next array, until it is given back.
//! drop(array);
//! assert_eq!(pool::usage(0).live, 0);
//! assert_eq!(pool::trim(0, 0)?, 2 << 20);
//! # Ok::<(), gpulend::Error>(())
//! ```
//!
//! `cache.rs` says what an allocation does, step by step; `blocks` are the books.
mod block;
mod cache;
mod direct;
mod frameworks;
mod setting;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::blocks::{self, arena};
use crate::device::{Device, DeviceKind, Memory};
use crate::driver::{driver, in_use};
use crate::dtype::Dtype;
use crate::error::{DeviceError, Error};
use crate::layout::Layout;
use crate::lease::Lease;
use crate::ledger::{self, FixedName, Kind};
use crate::owner::Owner;
use crate::stream::{Ready, Stream, Timeline, current, is_capturing};
use crate::view::View;

pub use crate::blocks::{Usage, User};
pub use block::{Block, Source, allocate};
pub use frameworks::{allocate_for, device_of, free_for, free_unless_captured, used_on};
pub use setting::{Mode, set_mode};

/// A stream of gpulend on each device, for frees and allocations that belong to no stream of the user.
static SIDE: [OnceLock<Stream>; 256] = [const { OnceLock::new() }; 256];

fn side(device: u8) -> Result<Stream, Error> {
    let place = &SIDE[usize::from(device)];
    if let Some(stream) = place.get() {
        return Ok(stream.clone());
    }
    let stream = Stream::create(device, false)?;
    Ok(place.get_or_init(|| stream).clone())
}

/// Allocates an array on a device, in the order of this thread's current stream there.
///
/// The memory is not initialised. Inside a capture it is allocated outside of the graph, so that it
/// lives as long as its lease; keep the lease as long as the graph is replayed.
///
/// # Errors
///
/// If there is no such device, the shape overflows, or there is not enough memory.
pub fn empty(shape: &[i64], dtype: Dtype, place: Device) -> Result<Lease, Error> {
    let layout = Layout::compact(shape, dtype)?;
    let bytes = layout.nbytes(dtype);
    let home = home_on(place)?;
    let (block, ready) = if bytes == 0 {
        ((0, Owner::nobody()), Ready::Now)
    } else if is_capturing(&home)? {
        let side = side(place.index())?;
        let block = owned(bytes, &side)?;
        side.synchronize()?;
        (block, Ready::Now)
    } else {
        (owned(bytes, &home)?, Ready::Home(home))
    };
    lease(block, (place, dtype, layout), ready)
}

/// As [`empty`], of memory that other processes can open, also where the pool is off.
///
/// # Errors
///
/// As [`empty`].
pub fn empty_shared(shape: &[i64], dtype: Dtype, place: Device) -> Result<Lease, Error> {
    let layout = Layout::compact(shape, dtype)?;
    let bytes = layout.nbytes(dtype);
    let mut home = home_on(place)?;
    let capturing = is_capturing(&home)?;
    if capturing {
        home = side(place.index())?;
    }
    if bytes == 0 {
        return lease((0, Owner::nobody()), (place, dtype, layout), Ready::Now);
    }
    let block = cache::allocate(bytes, &home)?;
    let block = (block.address(), block.into_owner());
    let ready = if capturing {
        home.synchronize()?;
        Ready::Now
    } else {
        Ready::Home(home)
    };
    lease(block, (place, dtype, layout), ready)
}

/// As [`empty`] if gpulend's pool has a free block that serves at once, so that nothing waits; `None` if not.
///
/// # Errors
///
/// As [`empty`].
#[inline]
pub fn empty_at_once(shape: &[i64], dtype: Dtype, place: Device) -> Result<Option<Lease>, Error> {
    // Before the first use there is nothing cached, and a driver takes long to start.
    if in_use().is_none() {
        return Ok(None);
    }
    let layout = Layout::compact(shape, dtype)?;
    let bytes = layout.nbytes(dtype);
    let home = home_on(place)?;
    if bytes == 0 || !setting::is_on(driver()?)? || is_capturing(&home)? {
        return Ok(None);
    }
    let Some(block) = cache::allocate_at_once(bytes, &home) else { return Ok(None) };
    let block = (block.address(), block.into_owner());
    lease(block, (place, dtype, layout), Ready::Home(home)).map(Some)
}

/// The current stream of a device that arrays can be made on.
fn home_on(place: Device) -> Result<Stream, Error> {
    if place.kind() != DeviceKind::Cuda {
        let problem = "arrays are made on the host and on CUDA devices only";
        let device = place.to_string().into();
        return Err(DeviceError::OutOfReach { device, problem }.into());
    }
    driver()?.require_device(place.index())?;
    Ok(current(place.index()))
}

fn lease(
    (address, owner): (u64, Owner),
    (place, dtype, layout): (Device, Dtype, Layout),
    ready: Ready,
) -> Result<Lease, Error> {
    static WHO: FixedName = FixedName::new("gpulend");
    let view = View::new(address, (place, Memory::Device), dtype, layout, false)?;
    let timeline = Timeline::new(place.index(), ready, None)?;
    let extent = view.extent();
    Ok(Lease::entered(view, extent, owner, WHO.get(), Some(timeline)))
}

/// Free and total bytes of a device's memory, as all processes use it.
///
/// # Errors
///
/// If there is no such device, or the driver refuses.
pub fn room(device: u8) -> Result<(u64, u64), Error> {
    let driver = driver()?;
    let _entered = driver.enter(device)?;
    Ok(driver.room()?)
}

/// Allocates in the order of a stream, which is not capturing.
fn owned(bytes: u64, home: &Stream) -> Result<(u64, Owner), Error> {
    if setting::is_on(driver()?)? {
        let block = cache::allocate(bytes, home)?;
        return Ok((block.address(), block.into_owner()));
    }
    let block = direct::allocate(bytes, home)?;
    Ok((block.address, Owner::keep(block)))
}

/// Whether gpulend's pool serves allocations, and not the driver.
///
/// # Errors
///
/// If there is no driver, or `GPULEND_POOL` has an unknown value.
pub fn is_on() -> Result<bool, Error> {
    setting::is_on(driver()?)
}

/// How much memory of a device gpulend has.
#[must_use]
pub fn usage(device: u8) -> Usage {
    let mut usage = arena(device).usage();
    let (held, peak) = direct::held(device);
    usage.live += held;
    usage.peak += peak;
    usage.reserved += held;
    usage.users[User::Lease as usize] += held;
    usage
}

/// Forgets the most bytes of a device that were in use: it counts from now on.
pub fn reset_peak(device: u8) {
    arena(device).reset_peak();
    direct::reset_peak(device);
}

/// Gives cached memory of a device back to the driver, until at most `keep` bytes are left. Waits for the streams in
/// whose order it was freed. Returns how many bytes went.
///
/// # Errors
///
/// If there is no such device, or the driver refuses; what it refused stays cached.
pub fn trim(device: u8, keep: u64) -> Result<u64, Error> {
    driver()?.require_device(device)?;
    cache::trim(device, keep)
}

/// The most bytes that the pool of a device may have from the driver.
#[must_use]
pub fn limit(device: u8) -> Option<u64> {
    Some(arena(device).limit()).filter(|limit| *limit < u64::MAX)
}

/// Limits what the pool of a device may have from the driver; `None` takes the limit away. Memory beyond a new limit is
/// given back as far as nobody uses it.
///
/// # Errors
///
/// As [`trim`]. The limit holds then too.
pub fn set_limit(device: u8, limit: Option<u64>) -> Result<(), Error> {
    driver()?.require_device(device)?;
    let limit = limit.unwrap_or(u64::MAX);
    let beyond = {
        let mut arena = arena(device);
        arena.set_limit(limit);
        let usage = arena.usage();
        (usage.reserved > limit).then(|| limit.saturating_sub(usage.reserved - usage.cached))
    };
    beyond.map_or(Ok(()), |keep| cache::trim(device, keep).map(drop))
}

/// The error for a device that has not enough memory, which says who holds it.
#[cold]
fn exhausted(device: u8, bytes: u64) -> Result<Error, Error> {
    let driver = driver()?;
    let _entered = driver.enter(device)?;
    let (free, total) = driver.room()?;
    let usage = usage(device);
    let limit = limit(device).map(|limit| format!(" of at most {limit}")).unwrap_or_default();
    let held = format!("{limit} ({})", holders(device, &usage)).into();
    let device = Device::new(DeviceKind::Cuda, device).to_string().into();
    Ok(Error::OutOfDeviceMemory { device, bytes, free, total, ours: usage.reserved, held })
}

/// Who holds blocks of a device's pool, as in `leases hold 4096 bytes, of which torch was lent 1024`.
fn holders(device: u8, usage: &Usage) -> String {
    let mut words: Vec<String> = Vec::new();
    for (user, bytes) in User::ALL.into_iter().zip(usage.users).filter(|(_, bytes)| *bytes > 0) {
        words.push(format!("{} hold {bytes}", user.name()));
    }
    // Those who were lent the leases keep them.
    let mut lent: BTreeMap<Box<str>, u64> = BTreeMap::new();
    let entries = ledger::snapshot().entries.into_iter();
    for entry in entries.filter(|entry| entry.kind == Kind::Export) {
        if blocks::find(device, entry.address).is_some() {
            *lent.entry(entry.who).or_default() += entry.nbytes;
        }
    }
    words.extend(lent.into_iter().map(|(who, bytes)| format!("{who} was lent {bytes} of them")));
    if usage.cached > 0 {
        words.push(format!("{} are free in pieces of at most {}", usage.cached, usage.largest));
    }
    if words.is_empty() { "nobody holds any of them".into() } else { words.join(", ") }
}
