//! `Gate`: work of the host's that later users of memory wait for, as they wait for an event.
#![forbid(unsafe_code)]

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::stream::event::Event;
use crate::stream::moment::{Moment, Origin};
use crate::stream::timeline::Timeline;

/// Closed until threads of gpulend's have done their work on the memory. No stream can wait for that, so the host does.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Lets everybody pass.
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is open.
    pub(super) fn pass(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = self.opened.wait_while(open, |open| !*open);
        drop(passed.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Timeline {
    /// Lets every later user of the memory wait for an event, and for its gate.
    pub(crate) fn wait_for_gate(&self, event: Arc<Event>) {
        self.change(|state| state.remember(Moment { event, of: Origin::Named }, None));
    }
}
