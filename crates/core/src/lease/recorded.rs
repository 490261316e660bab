//! Leases in graphs: memory that captured work uses stays as long as the graph.
#![forbid(unsafe_code)]

use crate::error::Error;
use crate::lease::Lease;
use crate::ledger::FixedName;
use crate::owner::Owner;
use crate::stream::{Recording, Stream};

impl Lease {
    /// Has the graph that gpulend captures on this stream, if it does, keep the memory.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn record_on(&self, stream: &Stream, writes: bool) -> Result<(), Error> {
        Recording::on(stream)?.iter().for_each(|recording| self.keep_in(recording, writes));
        Ok(())
    }

    /// Has a graph keep the memory.
    pub(crate) fn keep_in(&self, recording: &Recording, writes: bool) {
        static GRAPH: FixedName = FixedName::new("gpulend.Graph");
        if let Some(timeline) = &self.0.timeline {
            recording.keep(timeline, writes, || Owner::keep(self.export(GRAPH.get())));
        }
    }
}
