//! `Block`: memory of the pool in the order of one stream, without a lease; `Source`: many of them.
#![forbid(unsafe_code)]

use std::mem;

use crate::blocks::{COMMON, Life, Taken, User, arena};
use crate::device::{Device, DeviceKind};
use crate::driver::{driver, is_forked};
use crate::dtype::Dtype;
use crate::error::{AddressError, Error};
use crate::layout::Layout;
use crate::lease::Lease;
use crate::owner::{Numbered, Owner};
use crate::pool::{cache, lease, side};
use crate::stream::{Ready, Stream, is_capturing, release_after, synchronize, was_capture_seen};

/// A block of gpulend's pool, to be used in the order of one stream. Dropping it gives it back, in that order.
///
/// It has no line in the ledger and no timeline, so it costs a fraction of a lease. Work of other streams is not waited for:
/// [`Block::lease`] makes a lease of it, which knows every stream. [`allocate`](crate::pool::allocate) has an example.
#[derive(Debug)]
pub struct Block {
    address: u64,
    bytes: u64,
    piece: u32,
    device: u8,
    /// The stream, where the block's queue does not tell that the stream is alive: it is kept until its work is done.
    home: Option<Box<Stream>>,
}

impl Block {
    #[inline]
    pub(super) fn new(taken: Taken, home: &Stream) -> Self {
        let Taken { address, bytes, piece } = taken;
        let lives = matches!(home.life(), Some(Life::Lasting | Life::Own));
        let kept = if lives { None } else { Some(Box::new(home.kept())) };
        Self { address, bytes, piece, device: home.device(), home: kept }
    }

    /// The same for work that is on no stream that can be named later. Nobody has used the block yet.
    pub(super) fn for_any_stream(mut self) -> Self {
        arena(self.device).rehome(self.piece, COMMON);
        self.home = Some(Box::new(Stream::per_thread(self.device)));
        self
    }

    /// Its first address.
    #[inline]
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes it has: at least as many as were asked for.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The index of its device.
    #[inline]
    #[must_use]
    pub const fn device(&self) -> u8 {
        self.device
    }

    /// Makes a lease of it, which enters the ledger and can be handed to other streams.
    ///
    /// # Errors
    ///
    /// If the shape overflows, or the block is shorter. The block is given back then.
    pub fn lease(self, shape: &[i64], dtype: Dtype) -> Result<Lease, Error> {
        let layout = Layout::compact(shape, dtype)?;
        let needed = layout.nbytes(dtype);
        if needed > self.bytes {
            let (address, size) = (self.address, self.bytes);
            let past = AddressError::PastEnd { address, needed, base: address, size, found: size };
            return Err(past.into());
        }
        let home = match &self.home {
            Some(home) => Some(Stream::clone(home)),
            None => {
                let home = arena(self.device).home(self.piece);
                home.and_then(|(handle, life)| Stream::again(self.device, handle, life))
            }
        };
        let ready = match home {
            Some(home) => Ready::Home(home),
            // The stream is being destroyed; its work may still run.
            None => {
                synchronize(self.device)?;
                Ready::Now
            }
        };
        arena(self.device).pass_on(self.piece, User::Lease);
        let place = Device::new(DeviceKind::Cuda, self.device);
        lease((self.address, self.into_owner()), (place, dtype, layout), ready)
    }

    /// The duty to give it back.
    #[inline]
    pub(super) fn into_owner(self) -> Owner {
        if self.home.is_some() {
            return Owner::keep(self);
        }
        let number = usize::from(self.device) << u32::BITS | self.piece as usize;
        mem::forget(self);
        Owner::number::<Self>(number)
    }
}

impl Numbered for Block {
    fn release(number: usize) {
        let device = u8::try_from(number >> u32::BITS).unwrap_or(u8::MAX);
        let piece = u32::try_from(number & u32::MAX as usize).unwrap_or(u32::MAX);
        drop(Self { address: 0, bytes: 0, piece, device, home: None });
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // Device memory belongs to the parent.
        if is_forked() {
            return;
        }
        // No call of the driver: this may be a deleter, or the stream may be capturing. In both cases the stream's next user of
        // the block comes after the work that the stream has now.
        match self.home.take() {
            None => {
                arena(self.device).give(self.piece);
            }
            Some(home) => self.give_later(*home),
        }
    }
}

impl Block {
    /// Gives the block back where the stream may be gone later.
    #[cold]
    fn give_later(&self, home: Stream) {
        let keeper: Owner = if home.life() == Some(Life::Kept) {
            // The stream's own next block may be this one, at once. It is everybody's after the work of now.
            let (queue, moment) = arena(self.device).give(self.piece);
            Owner::keep(Settling { home: home.clone(), queue, moment })
        } else {
            let Self { address, bytes, piece, device, .. } = *self;
            Owner::keep(Self { address, bytes, piece, device, home: None })
        };
        release_after(home, keeper);
    }
}

/// Makes the blocks that a stream freed up to a moment common, after its work, and keeps the stream until then: no other
/// stream gets its handle, and with it its blocks.
struct Settling {
    home: Stream,
    queue: u32,
    moment: u64,
}

impl Drop for Settling {
    fn drop(&mut self) {
        if !is_forked() {
            arena(self.home.device()).settle(self.queue, self.moment);
        }
    }
}

/// Blocks for the work of one stream, for programs that need many: it asks the driver nothing where a free block fits.
///
/// So gpulend does not notice if *other* code begins to capture the stream. If it may, use [`allocate`], which asks each time.
/// From the first capture that gpulend itself sees in the process, on any stream, a source asks each time too.
///
/// ```
/// # // Only where there is a simulated GPU.
/// # if std::env::var_os("GPULEND_SIM_LIBRARY").is_none() { return Ok(()) }
/// use gpulend::driver::{Settings, simulate};
/// use gpulend::{pool, stream::Stream};
///
/// simulate(&Settings::default())?;
/// let source = pool::Source::on(&Stream::create(0, false)?)?;
/// let first = source.allocate(4096)?.address();
/// assert_eq!(source.allocate(4096)?.address(), first);
/// # Ok::<(), gpulend::Error>(())
/// ```
#[derive(Debug)]
pub struct Source {
    stream: Stream,
}

impl Source {
    /// A source for a stream.
    ///
    /// # Errors
    ///
    /// If there is no such device, or the driver refuses.
    pub fn on(stream: &Stream) -> Result<Self, Error> {
        driver()?.require_device(stream.device())?;
        // Notices a capture that is going on.
        is_capturing(stream)?;
        Ok(Self { stream: stream.clone() })
    }

    /// Takes a block of at least `bytes` bytes.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    #[inline]
    pub fn allocate(&self, bytes: u64) -> Result<Block, Error> {
        if was_capture_seen() {
            return allocate(bytes, &self.stream);
        }
        // Fails in a forked child.
        driver()?;
        cache::allocate_as(User::Block, bytes, &self.stream)
    }
}

/// Takes a block of at least `bytes` bytes, to be used in the order of a stream.
///
/// Inside a capture the block is one on which no work is left, and it is given back after all work that the device has then: keep it
/// as long as the graph is launched.
///
/// ```
/// # // Only where there is a simulated GPU.
/// # if std::env::var_os("GPULEND_SIM_LIBRARY").is_none() { return Ok(()) }
/// use gpulend::driver::{Settings, simulate};
/// use gpulend::{Dtype, pool, stream::Stream};
///
/// simulate(&Settings::default())?;
/// let stream = Stream::create(0, false)?;
/// let block = pool::allocate(4000, &stream)?;
/// assert_eq!((block.bytes(), block.address() % 512), (4096, 0));
///
/// // With a lease it can be copied, lent, and handed to kernels.
/// let lease = block.lease(&[10, 100], Dtype::FLOAT32)?;
/// assert_eq!(lease.view().layout().shape(), [10, 100]);
/// # Ok::<(), gpulend::Error>(())
/// ```
///
/// # Errors
///
/// If there is no such device, or not enough memory.
pub fn allocate(bytes: u64, stream: &Stream) -> Result<Block, Error> {
    allocate_in(User::Block, bytes, stream).map(|(block, _)| block)
}

/// As [`allocate`], for any user; also whether the stream is capturing.
pub(super) fn allocate_in(user: User, bytes: u64, home: &Stream) -> Result<(Block, bool), Error> {
    driver()?.require_device(home.device())?;
    // Which stream works on it is not known for a caller that names none, nor later for a graph, which may be launched anywhere.
    let captured = is_capturing(home)?;
    if captured || home.is_per_thread() {
        let side = side(home.device())?;
        let block = cache::allocate_as(user, bytes, &side)?;
        side.synchronize()?;
        return Ok((block.for_any_stream(), captured));
    }
    Ok((cache::allocate_as(user, bytes, home)?, false))
}
