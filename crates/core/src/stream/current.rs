//! The current stream of each thread and device.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use crate::abi::cuda::StreamHandle;
use crate::stream::stream::Stream;

thread_local! {
    /// A stack: the stream entered last is current.
    static ENTERED: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

/// The current stream of this thread on a device: the one entered last, or the legacy stream.
#[must_use]
pub fn current(device: u8) -> Stream {
    ENTERED.with_borrow(|entered| {
        let found = entered.iter().rev().find(|stream| stream.device() == device);
        found.cloned().unwrap_or(Stream::legacy(device))
    })
}

/// Its handle, if any thread can name it.
#[inline]
pub(crate) fn current_handle(device: u8) -> Option<StreamHandle> {
    ENTERED.with_borrow(|entered| {
        let found = entered.iter().rev().find(|stream| stream.device() == device);
        let nameable = found.is_none_or(Stream::stays_nameable);
        nameable.then_some(found.map_or(StreamHandle::LEGACY, Stream::handle))
    })
}

/// The device of the stream that this thread entered last, or the first one.
#[must_use]
pub fn current_device() -> u8 {
    ENTERED.with_borrow(|entered| entered.last().map_or(0, Stream::device))
}

/// Makes a stream current on its device, for this thread, until it is left.
pub fn enter(stream: Stream) {
    ENTERED.with_borrow_mut(|entered| entered.push(stream));
}

/// Leaves a stream that this thread entered; if it entered it several times, the last time.
pub fn leave(stream: &Stream) {
    let left = ENTERED.with_borrow_mut(|entered| {
        let index = entered.iter().rposition(|found| found.is(stream))?;
        Some(entered.remove(index))
    });
    drop(left);
}
