//! Timers of GPU work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpulend::kernel;
use gpulend::stream::current_device;

use crate::guard::guard;
use crate::pointer::Out;
use crate::refusal::Refusal;
use crate::streams::of;
use crate::table::{find, insert, remove};
use crate::types::{Status, StreamHandle, TimerHandle};

/// A timer, and whether its end was queued.
pub(crate) struct Timer {
    timer: kernel::Timer,
    stopped: AtomicBool,
}

/// Starts measuring the work that is queued on a stream from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_timer_start(
    stream: StreamHandle,
    timer: *mut TimerHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let timer = unsafe { Out::at(timer, "timer") }?;
        let started = kernel::Timer::start(of(stream, current_device())?)?;
        let started = Timer { timer: started, stopped: AtomicBool::new(false) };
        timer.put(insert(Arc::new(started))?);
        Ok(())
    })
}

/// Stops measuring: later work is not part of the time. A second call moves the end.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_timer_stop(timer: TimerHandle) -> Status {
    guard(|| {
        let found: Arc<Timer> = find(timer)?;
        found.timer.stop()?;
        found.stopped.store(true, Ordering::Release);
        Ok(())
    })
}

/// Waits until the measured work is done, and returns the GPU time from start to stop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_timer_milliseconds(
    timer: TimerHandle,
    milliseconds: *mut f64,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let milliseconds = unsafe { Out::at(milliseconds, "milliseconds") }?;
        let found: Arc<Timer> = find(timer)?;
        if !found.stopped.load(Ordering::Acquire) {
            let problem = "was not stopped; call gpulend_timer_stop() after the work";
            return Err(Refusal::argument("timer", problem));
        }
        milliseconds.put(found.timer.milliseconds()?.into());
        Ok(())
    })
}

/// Frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_timer_free(timer: TimerHandle) -> Status {
    guard(|| {
        drop(remove::<Arc<Timer>>(timer)?);
        Ok(())
    })
}
