//! gpulend's own memory pool: what it holds, its limit, and blocks without a lease.

use gpulend::pool::{self, User};
use gpulend::stream::{Stream, current, current_device};

use crate::devices::gpu;
use crate::guard::guard;
use crate::pointer::{Form, Out};
use crate::refusal::Refusal;
use crate::table::find;
use crate::types::{PoolInfo, Status, StreamHandle};

/// How much memory of a GPU gpulend has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_pool(device: i32, info: *mut PoolInfo) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let info = unsafe { Form::at(info, "info") }?;
        let device = known(device)?;
        let usage = pool::usage(device);
        info.fill(PoolInfo {
            size: 0,
            live: usage.live,
            cached: usage.cached,
            peak: usage.peak,
            reserved: usage.reserved,
            largest: usage.largest,
            blocks: usage.blocks,
            segments: usage.segments,
            limit: pool::limit(device).unwrap_or(0),
        });
        Ok(())
    })
}

/// Gives cached memory of a GPU back to the driver, until at most `keep` bytes are left. Waits for the
/// streams in whose order it was freed. `given` gets the number of bytes, and may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_pool_trim(device: i32, keep: u64, given: *mut u64) -> Status {
    guard(|| {
        let bytes = pool::trim(known(device)?, keep)?;
        if !given.is_null() {
            // SAFETY: (1) of the crate.
            unsafe { Out::at(given, "given") }?.put(bytes);
        }
        Ok(())
    })
}

/// Limits what the pool of a GPU may have from the driver; 0 takes the limit away. Memory beyond a new
/// limit is given back as far as nobody uses it.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_pool_set_limit(device: i32, bytes: u64) -> Status {
    guard(|| Ok(pool::set_limit(known(device)?, (bytes != 0).then_some(bytes))?))
}

/// Lets `peak` of gpulend_pool() count from now on.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_pool_reset_peak(device: i32) -> Status {
    guard(|| {
        pool::reset_peak(known(device)?);
        Ok(())
    })
}

/// Takes a block of at least `bytes` bytes from the pool, to be used in the order of `stream`: like
/// cudaMallocAsync(). It has no lease, so work of other streams on it is not waited for. Inside a capture
/// the block lives outside of the graph; keep it as long as the graph is launched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_pool_allocate(
    bytes: u64,
    stream: StreamHandle,
    address: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let address = unsafe { Out::at(address, "address") }?;
        let home: Stream = if stream == 0 { current(current_device()) } else { find(stream)? };
        address.put(pool::allocate_for(User::Block, bytes, &home)?);
        Ok(())
    })
}

/// Gives a block of gpulend_pool_allocate() back, in the order of its stream. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_pool_free(address: u64) -> Status {
    guard(|| match pool::free_for(Some(User::Block), address) {
        true => Ok(()),
        false => {
            let problem = format!(
                "is {address:#x}, which gpulend_pool_allocate() did not return, or which was freed"
            );
            Err(Refusal::argument("address", problem))
        }
    })
}

/// A GPU that is there.
fn known(device: i32) -> Result<u8, Refusal> {
    let device = gpu(device)?;
    gpulend::driver::driver()?.primary(device)?;
    Ok(device)
}
