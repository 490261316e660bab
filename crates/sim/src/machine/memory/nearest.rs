//! What is near an address, in words.
#![forbid(unsafe_code)]

use super::{Kind, Memory};

impl Memory {
    /// Describes the nearest allocation.
    #[must_use]
    pub fn nearest(&self, address: usize) -> Option<String> {
        let distance = |base: usize, bytes: usize| {
            if address < base {
                base - address
            } else {
                address.saturating_add(1).saturating_sub(base + bytes)
            }
        };
        let live = [self.live.range(..=address).next_back(), self.live.range(address..).next()];
        let dead = [self.dead.range(..=address).next_back(), self.dead.range(address..).next()];
        let live = live.into_iter().flatten().map(|(base, allocation)| {
            (*base, allocation.range.bytes(), allocation.buffer_id, allocation.kind.word(), None)
        });
        let dead = dead
            .into_iter()
            .flatten()
            .map(|(base, dead)| (*base, dead.bytes, dead.buffer_id, "", Some(dead.freed_by)));
        // If both are equally near, prefer the live allocation.
        let (base, bytes, buffer_id, word, freed_by) =
            live.chain(dead).min_by_key(|(base, bytes, .., freed_by)| {
                (distance(*base, *bytes), freed_by.is_some())
            })?;
        let place = if address < base {
            format!("{} bytes before", base - address)
        } else if address < base + bytes {
            format!("{} bytes into", address - base)
        } else {
            format!("{} bytes after the end of", address - base - bytes)
        };
        let fate = freed_by.map(|name| format!(", freed by {name}")).unwrap_or_default();
        let word = if word.is_empty() { String::new() } else { format!(" {word}") };
        Some(format!("{place} buffer {buffer_id} ({bytes} bytes{word} at {base:#x}{fate})"))
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Device => "of device memory",
            Self::Pool { .. } | Self::HostPool { .. } | Self::ManagedPool { .. } => "of a pool",
            Self::Graph => "of a graph",
            Self::Pinned { .. } => "of pinned memory",
            Self::Registered { .. } => "of registered memory",
            Self::Managed => "of managed memory",
            Self::Variable => "of a module's variable",
            Self::Array => "of an array",
            Self::Imported { .. } => "of another process",
            Self::Mapped { .. } => "of mapped memory",
        }
    }
}
