//! Whether Python's cycle collector may free a lease's memory.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::driver::driver;
use crate::owner::Owner;
use crate::stream::is_reaper;
use crate::stream::order::{all, is_legacy_idle};
use crate::stream::reaper::release_when_done;
use crate::stream::sync::{AtomicBool, Ordering};
use crate::stream::timeline::Timeline;
use crate::stream::uses::{Use, devices};

impl Timeline {
    /// Whether the cycle collector may free the memory: all work on it is done. Only for memory without
    /// borrowers.
    ///
    /// Repeated calls in one collection return the same answer: the collector must not see "yes" and then
    /// "no". The reaper is asked to watch the noted work; a later collection sees the result. Open streams
    /// are queried now.
    pub(crate) fn is_collectable(&self, collection: u64) -> bool {
        if let Some((asked, answer)) = self.state().collected
            && asked == collection
        {
            return answer;
        }
        let answer = self.is_at_home() || (self.is_settled() && self.is_open_work_done());
        // Set without a note: it is not work.
        self.state().collected = Some((collection, answer));
        answer
    }

    /// Whether all noted work is done. The first call asks the reaper to watch it; later calls return what it
    /// found.
    fn is_settled(&self) -> bool {
        let done = Arc::new(AtomicBool::new(false));
        let asked = self.change(|state| {
            if state.uses.is_empty() && state.moments.is_empty() && state.hidden == 0 {
                return Some(true);
            }
            let known = state.settling.as_ref().map(|settling| settling.load(Ordering::Acquire));
            if known.is_none() {
                state.settling = Some(Arc::clone(&done));
            }
            known
        });
        if asked.is_none() {
            let settled = Owner::call(move || done.store(true, Ordering::Release));
            release_when_done(self.pending(), settled);
        }
        asked.unwrap_or(false)
    }

    /// Whether the open streams are idle.
    fn is_open_work_done(&self) -> bool {
        let Ok(driver) = driver() else { return false };
        let (uses, hidden) = {
            let state = self.state();
            (state.uses.clone(), state.hidden_always)
        };
        driver.only_look(true);
        let idle = |one: &Use| match one.stream.is_legacy() {
            true => is_legacy_idle(one.stream.device()),
            false => one.stream.is_idle(),
        };
        let rest = |device: u8| all(device).and_then(|event| event.has_happened());
        let done = uses.iter().filter(|one| one.is_open()).all(|one| idle(one).unwrap_or(false))
            && devices(hidden).all(|device| rest(device).unwrap_or(false));
        driver.only_look(is_reaper());
        done
    }
}
