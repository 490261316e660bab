//! Device memory that gpulend allocates, from one of the driver's pools, in stream order.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::{Device, DeviceKind, Memory};
use crate::driver::{driver, is_forked};
use crate::dtype::Dtype;
use crate::error::{DeviceError, Error};
use crate::layout::Layout;
use crate::lease::Lease;
use crate::ledger::FixedName;
use crate::owner::Owner;
use crate::stream::{
    Ready, Stream, Timeline, current, is_capturing, is_deleting, is_reaper, release_after,
};
use crate::view::View;

/// Bytes that gpulend has allocated, by device.
static HELD: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
/// A stream of gpulend on each device, for frees and allocations that belong to no stream of the user.
static SIDE: [OnceLock<Stream>; 256] = [const { OnceLock::new() }; 256];

/// A block of memory, freed when dropped.
struct Block {
    address: u64,
    bytes: u64,
    /// The stream in whose order it was allocated.
    home: Stream,
}

impl Drop for Block {
    fn drop(&mut self) {
        // Device memory belongs to the parent.
        if is_forked() {
            return;
        }
        // A stream that cannot be named here, or any more, must not be touched.
        let unnamable = !self.home.stays_nameable();
        let elsewhere = !is_reaper()
            && (is_deleting() || unnamable || is_capturing(&self.home).unwrap_or(false));
        if elsewhere {
            let home = self.home.clone();
            let block = Self { address: self.address, bytes: self.bytes, home: self.home.clone() };
            return release_after(home, Owner::keep(block));
        }
        self.free();
    }
}

impl Block {
    fn free(&self) {
        let device = self.home.device();
        HELD[usize::from(device)].fetch_sub(self.bytes, Ordering::Relaxed);
        let free = || {
            let driver = driver()?;
            let _entered = driver.enter(device)?;
            let _relaxed = driver.relax()?;
            // On the reaper all work on the memory is done.
            let stream = if is_reaper() { side(device)? } else { self.home.clone() };
            // SAFETY: the block's own address, once; the stream is alive and not capturing.
            Ok::<_, Error>(unsafe { driver.free(self.address, stream.handle()) }?)
        };
        // If the driver fails here, the device is lost, and its memory with it.
        let _ = free();
    }
}

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
    static WHO: FixedName = FixedName::new("gpulend");
    let layout = Layout::compact(shape, dtype)?;
    let bytes = layout.nbytes(dtype);
    if place.kind() != DeviceKind::Cuda {
        let problem = "arrays are made on the host and on CUDA devices only";
        let device = place.to_string().into();
        return Err(DeviceError::OutOfReach { device, problem }.into());
    }
    let device = place.index();
    driver()?.require_device(device)?;
    let home = current(device);
    let (address, owner, ready) = if bytes == 0 {
        (0, Owner::nobody(), Ready::Now)
    } else if is_capturing(&home)? {
        let side = side(device)?;
        let block = allocate(bytes, &side)?;
        side.synchronize()?;
        (block.address, Owner::keep(block), Ready::Now)
    } else {
        let block = allocate(bytes, &home)?;
        (block.address, Owner::keep(block), Ready::Home(home))
    };
    let view = View::new(address, (place, Memory::Device), dtype, layout, false)?;
    let timeline = Timeline::new(device, ready, None)?;
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

fn allocate(bytes: u64, home: &Stream) -> Result<Block, Error> {
    let driver = driver()?;
    let device = home.device();
    let _entered = driver.enter(device)?;
    let _relaxed = driver.relax()?;
    // SAFETY: the stream is alive, and the caller has checked that it is not capturing.
    let mut found = unsafe { driver.allocate(device, bytes, home.handle()) }?;
    if found.is_none() {
        // Memory that was freed in the order of these streams may become free when their work is done.
        home.synchronize()?;
        side(device)?.synchronize()?;
        driver.trim(device)?;
        // SAFETY: as above.
        found = unsafe { driver.allocate(device, bytes, home.handle()) }?;
    }
    let held = &HELD[usize::from(device)];
    let Some(address) = found else {
        let (free, total) = driver.room()?;
        let device = Device::new(DeviceKind::Cuda, device).to_string().into();
        let ours = held.load(Ordering::Relaxed);
        return Err(Error::OutOfDeviceMemory { device, bytes, free, total, ours });
    };
    held.fetch_add(bytes, Ordering::Relaxed);
    Ok(Block { address, bytes, home: home.kept() })
}
