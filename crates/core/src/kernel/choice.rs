//! The stream of a launch: the named one, else that of the first array's framework, else the thread's current
//! one.
#![forbid(unsafe_code)]

use crate::abi::cuda::StreamHandle;
use crate::stream::{Stream, current, current_handle};

/// No stream has this handle.
const NONE: StreamHandle = StreamHandle(0);

/// The stream of a launch, once chosen.
pub(super) struct Choice {
    /// The device of the kernel.
    device: u8,
    /// `NONE` until one is chosen.
    handle: StreamHandle,
    /// `None` while it is the current stream and that cannot have changed. This saves counting a reference.
    stream: Option<Stream>,
    /// Whether any thread can name the stream later, and it is on the kernel's device.
    plain: bool,
}

impl Choice {
    #[inline(always)]
    pub(super) const fn new(device: u8) -> Self {
        Self { device, handle: NONE, stream: None, plain: true }
    }

    /// Chooses a stream, replacing any earlier choice.
    pub(super) fn set(&mut self, stream: Stream) {
        self.handle = stream.handle();
        self.plain = stream.device() == self.device && stream.stays_nameable();
        self.stream = Some(stream);
    }

    /// Chooses an array's home stream, if none is chosen. Returns whether the launch is on that stream and
    /// any thread can name it later.
    #[inline]
    pub(super) fn prefer(&mut self, home: &Stream) -> bool {
        if self.handle == NONE {
            self.set(home.clone());
        }
        home.handle() == self.handle && home.device() == self.device() && home.stays_nameable()
    }

    /// The handle of the stream. Chooses the current one if none is chosen.
    #[inline(always)]
    pub(super) fn handle(&mut self) -> StreamHandle {
        if self.handle == NONE {
            self.take_current();
        }
        self.handle
    }

    #[inline]
    fn take_current(&mut self) {
        match current_handle(self.device) {
            Some(handle) => self.handle = handle,
            None => self.set(current(self.device)),
        }
    }

    /// Whether any thread can name the stream later, and it is on the kernel's device.
    #[inline(always)]
    pub(super) const fn is_plain(&self) -> bool {
        self.plain
    }

    /// The device of the stream.
    #[inline(always)]
    pub(super) fn device(&self) -> u8 {
        self.stream.as_ref().map_or(self.device, Stream::device)
    }

    /// The chosen stream, if any. From now on it stays chosen even if the current stream changes.
    pub(super) fn fix(&mut self) -> Option<&Stream> {
        if self.handle == NONE {
            return None;
        }
        let device = self.device;
        Some(self.stream.get_or_insert_with(|| current(device)))
    }

    /// The stream. Chooses the current one if none is chosen.
    pub(super) fn stream(&mut self) -> Stream {
        self.handle();
        self.fix().cloned().unwrap_or_else(|| current(self.device))
    }
}
