//! Handles: unique numbers of objects, never reused.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// The kind of a handle. Handles are above all addresses of a program, so a client that dereferences one
/// faults at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words are CUDA's")]
pub enum Kind {
    Context = 1,
    Stream,
    Event,
    Pool,
    Graph,
    Executable,
    Module,
    Node,
    Function,
    Library,
    Kernel,
    Link,
    UserObject,
    Physical,
    Array,
    Mipmap,
    Texture,
    Surface,
}

/// No handle is below this, and no address of a program is above it.
pub const FIRST: usize = 1 << 48;

impl Kind {
    fn base(self) -> usize {
        self as usize * FIRST
    }
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: Kind,
    made: usize,
    items: HashMap<usize, T>,
}

impl<T> Table<T> {
    /// Makes an empty table.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, made: 0, items: HashMap::new() }
    }

    /// Stores `item` and returns its handle.
    pub fn add(&mut self, item: T) -> usize {
        self.made += 1;
        let handle = self.kind.base() | self.made << 4;
        self.items.insert(handle, item);
        handle
    }

    /// Returns the object's number, unique within its kind.
    #[must_use]
    pub fn number(&self, handle: usize) -> u64 {
        ((handle & !self.kind.base()) >> 4) as u64
    }

    /// Returns the object, if it is alive.
    #[must_use]
    pub fn get(&self, handle: usize) -> Option<&T> {
        self.items.get(&handle)
    }

    /// Returns the object, if it is alive.
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.items.get_mut(&handle)
    }

    /// Removes the object.
    pub fn remove(&mut self, handle: usize) -> Option<T> {
        self.items.remove(&handle)
    }

    /// Keeps only the objects for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.items.retain(|_, item| keep(item));
    }

    /// Returns whether the handle once named an object that no longer exists.
    #[must_use]
    pub fn was(&self, handle: usize) -> bool {
        let number = (handle ^ self.kind.base()) >> 4;
        handle & 0xF == 0 && (1..=self.made).contains(&number) && !self.items.contains_key(&handle)
    }

    /// Returns each handle with its object.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.items.iter().map(|(handle, item)| (*handle, item))
    }

    /// Returns each handle with its object.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.items.iter_mut().map(|(handle, item)| (*handle, item))
    }

    /// Returns the number of live objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no live objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_never_given_twice() {
        let mut table = Table::new(Kind::Event);
        let first = table.add(1);
        assert_eq!(table.remove(first), Some(1));
        let second = table.add(2);
        assert_ne!(first, second);
        assert!(table.was(first) && !table.was(second) && !table.was(second + 16));
        assert!(!table.was(0) && !table.was(first + 1));
    }
}
