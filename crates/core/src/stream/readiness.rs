//! Whether the bytes of a lease are ready, without waiting.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use crate::error::Error;
use crate::stream::is_capturing;
use crate::stream::stream::Stream;
use crate::stream::timeline::Timeline;

impl Timeline {
    /// Whether the bytes are ready, so that nothing has to wait.
    pub(crate) fn is_ready(&self) -> Result<bool, Error> {
        self.is_ready_for(false)
    }

    /// As [`Timeline::is_ready`]. Who will write waits for readers too.
    pub(crate) fn is_ready_for(&self, writes: bool) -> Result<bool, Error> {
        let state = self.state();
        let before = state.uses.iter().filter(|one| one.writes || writes);
        let before: SmallVec<[Stream; 2]> = before.map(|one| one.stream.clone()).collect();
        let moments = state.moments.clone();
        let hidden = state.hidden_from(writes);
        drop(state);
        if hidden != 0 {
            return Ok(false);
        }
        for stream in &before {
            if is_capturing(stream)? || !stream.is_idle()? {
                return Ok(false);
            }
        }
        for moment in &moments {
            if !moment.has_come()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
