//! Streams and events.

use std::sync::Arc;

use gpulend::stream::{self, Event, Stream, current, current_device};

use crate::devices::gpu;
use crate::guard::guard;
use crate::pointer::Out;
use crate::refusal::Refusal;
use crate::table::{find, insert, remove};
use crate::types::{EventHandle, GPULEND_ANY_DEVICE, GPULEND_BLOCKING, Status, StreamHandle};

/// Creates a stream. `flags` is 0 or GPULEND_BLOCKING.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_stream_create(
    device: i32,
    flags: u32,
    stream: *mut StreamHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let stream = unsafe { Out::at(stream, "stream") }?;
        check_flags(flags, GPULEND_BLOCKING)?;
        let made = Stream::create(any_gpu(device)?, flags & GPULEND_BLOCKING != 0)?;
        stream.put(insert(made)?);
        Ok(())
    })
}

/// Makes a handle of another library's CUstream or cudaStream_t, given as a number; 0 and 1 are
/// the legacy default stream, 2 the calling thread's. The stream must exist whenever the handle is
/// used; gpulend never destroys it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_stream_wrap(
    device: i32,
    number: u64,
    stream: *mut StreamHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let stream = unsafe { Out::at(stream, "stream") }?;
        let device = any_gpu(device)?;
        gpulend::driver::driver()?.primary(device)?;
        let number = usize::try_from(number)
            .map_err(|_| Refusal::argument("number", "is not a stream's: it is too large"))?;
        // SAFETY: (4) of the crate.
        let named = unsafe { Stream::named(device, number, None) };
        stream.put(insert(named)?);
        Ok(())
    })
}

/// The CUstream of a stream, as a number, and its GPU. Either pointer may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_stream_number(
    stream: StreamHandle,
    number: *mut u64,
    device: *mut i32,
) -> Status {
    guard(|| {
        let found = of(stream, current_device())?;
        // SAFETY: (1) of the crate.
        if let Ok(number) = unsafe { Out::at(number, "number") } {
            number.put(found.handle().0 as u64);
        }
        // SAFETY: (1) of the crate.
        if let Ok(device) = unsafe { Out::at(device, "device") } {
            device.put(i32::from(found.device()));
        }
        Ok(())
    })
}

/// Makes a stream current for this thread, on its GPU, until the thread leaves it.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_stream_enter(stream: StreamHandle) -> Status {
    guard(|| {
        stream::enter(find(stream)?);
        Ok(())
    })
}

/// Leaves a stream that this thread entered.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_stream_leave(stream: StreamHandle) -> Status {
    guard(|| {
        stream::leave(&find(stream)?);
        Ok(())
    })
}

/// Waits until all work on a stream is done.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_stream_synchronize(stream: StreamHandle) -> Status {
    guard(|| Ok(of(stream, current_device())?.synchronize()?))
}

/// Whether all work on a stream is done: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_stream_done(stream: StreamHandle, done: *mut i32) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let done = unsafe { Out::at(done, "done") }?;
        done.put(i32::from(of(stream, current_device())?.is_idle()?));
        Ok(())
    })
}

/// Makes later work on a stream wait for an event, which may be of another stream.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_stream_wait(stream: StreamHandle, event: EventHandle) -> Status {
    guard(|| {
        let event: Arc<Event> = find(event)?;
        Ok(of(stream, event.device())?.wait(&event)?)
    })
}

/// Frees the handle. A stream that gpulend created is destroyed when its work is done and no lease
/// waits for it.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_stream_free(stream: StreamHandle) -> Status {
    guard(|| {
        drop(remove::<Stream>(stream)?);
        Ok(())
    })
}

/// Records an event after the work that a stream has now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_event_record(
    stream: StreamHandle,
    event: *mut EventHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let event = unsafe { Out::at(event, "event") }?;
        let recorded = of(stream, current_device())?.record()?;
        event.put(insert(Arc::new(recorded))?);
        Ok(())
    })
}

/// Waits for an event.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_event_synchronize(event: EventHandle) -> Status {
    guard(|| Ok(find::<Arc<Event>>(event)?.synchronize()?))
}

/// Whether an event has happened: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_event_done(event: EventHandle, done: *mut i32) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let done = unsafe { Out::at(done, "done") }?;
        done.put(i32::from(find::<Arc<Event>>(event)?.has_happened()?));
        Ok(())
    })
}

/// Frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_event_free(event: EventHandle) -> Status {
    guard(|| {
        drop(remove::<Arc<Event>>(event)?);
        Ok(())
    })
}

/// The stream of a handle; 0 is this thread's current stream on a device.
pub(crate) fn of(handle: StreamHandle, device: u8) -> Result<Stream, Refusal> {
    if handle == 0 { Ok(current(device)) } else { find(handle) }
}

/// A GPU by its number; GPULEND_ANY_DEVICE is that of this thread's current stream.
pub(crate) fn any_gpu(device: i32) -> Result<u8, Refusal> {
    if device == GPULEND_ANY_DEVICE { Ok(current_device()) } else { gpu(device) }
}

/// Refuses flags that a function does not know.
pub(crate) fn check_flags(flags: u32, known: u32) -> Result<(), Refusal> {
    match flags & !known {
        0 => Ok(()),
        unknown => {
            let problem = format!("have {unknown:#x}, which this function does not know");
            Err(Refusal::argument("flags", problem))
        }
    }
}

/// A stream that is this thread's current one until dropped.
pub(crate) struct Entered(Option<Stream>);

impl Entered {
    /// Enters the stream of a handle, which must be of `device`; for 0 the current stream stays.
    pub(crate) fn on(handle: StreamHandle, device: u8) -> Result<Self, Refusal> {
        if handle == 0 {
            return Ok(Self(None));
        }
        let found: Stream = find(handle)?;
        if found.device() != device {
            let problem = format!(
                "is of GPU {}, and the work is on GPU {device}; name one of that GPU",
                found.device()
            );
            return Err(Refusal::argument("stream", problem));
        }
        stream::enter(found.clone());
        Ok(Self(Some(found)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(stream) = &self.0 {
            stream::leave(stream);
        }
    }
}
