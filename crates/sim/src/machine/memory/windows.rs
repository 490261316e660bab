//! Address space beside the arenas: memory of other processes, and what programs reserve.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::Memory;
use crate::bytes::Mapping;

/// The number of closed windows whose addresses are not used again.
const RESTING: usize = 64;

impl Memory {
    /// Adds address space.
    pub(in crate::machine) fn add_window(&mut self, window: Arc<Mapping>) {
        self.windows.insert(window.address(), window);
    }

    /// Returns the address space that contains an address.
    pub(in crate::machine) fn window(&self, address: usize) -> Option<&Arc<Mapping>> {
        let (_, window) = self.windows.range(..=address).next_back()?;
        window.spans(address).then_some(window)
    }

    /// Ends the use of address space. Its addresses rest, and read as zeros: a kernel may still hold one.
    pub(in crate::machine) fn close_window(&mut self, address: usize) {
        let Some(window) = self.window(address) else { return };
        // Where the kernel refuses, the bytes merely stay.
        let _ = window.hide(0, window.bytes());
        self.closed.push_back(window.address());
        if self.closed.len() > RESTING
            && let Some(oldest) = self.closed.pop_front()
        {
            let gone = self.windows.remove(&oldest).map(|window| window.address() + window.bytes());
            let names: Vec<usize> =
                self.dead.range(oldest..gone.unwrap_or(oldest)).map(|(base, _)| *base).collect();
            for base in names {
                self.dead.remove(&base);
            }
        }
    }
}
