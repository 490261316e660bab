//! The offsets of shared variables in a block's memory. They are the same in all functions.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::inline::{Allotter, Flat};
use super::program::LoadError;
use crate::ptx::ast::{Module, Place, Space};

/// The minimum alignment of dynamic shared memory.
const DYNAMIC_ALIGN: u32 = 16;

/// A shared variable, by its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Module(usize),
    Function(usize, usize),
}

/// The shared memory of a kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedLayout {
    places: BTreeMap<Key, u32>,
    /// The size of static shared memory.
    pub bytes: u32,
    /// The offset of dynamic shared memory.
    pub dynamic: u32,
}

impl SharedLayout {
    /// Assigns an offset to each variable that one of these functions uses.
    pub(super) fn new<'a>(
        module: &Module,
        flats: impl Iterator<Item = &'a Flat>,
    ) -> Result<Self, LoadError> {
        let mut wanted = BTreeMap::new();
        for flat in flats {
            for variable in &flat.shared {
                wanted.insert(Key::Module(*variable), &module.variables[*variable]);
            }
            for (variable, (function, index)) in flat.body.variables.iter().zip(&flat.origins) {
                if variable.space == Space::Shared {
                    wanted.insert(Key::Function(*function, *index), variable);
                }
            }
        }
        let (mut room, mut align) = (Allotter::default(), DYNAMIC_ALIGN);
        let mut places = BTreeMap::new();
        for (key, variable) in &wanted {
            if variable.bytes > 0 {
                places.insert(*key, room.take(variable.bytes, variable.align, variable.line)?);
            } else {
                align = align.max(variable.align);
            }
        }
        let dynamic = room.used.next_multiple_of(align);
        let open = wanted.iter().filter(|(_, variable)| variable.bytes == 0);
        places.extend(open.map(|(key, _)| (*key, dynamic)));
        Ok(Self { places, bytes: room.used, dynamic })
    }

    /// The offset of a variable that a function uses.
    pub(super) fn place(&self, flat: &Flat, place: Place) -> u32 {
        let key = match place {
            Place::Module(index) => Key::Module(index),
            Place::Body(index) => {
                let (function, index) = flat.origins[index];
                Key::Function(function, index)
            }
            // Parameters are not in shared memory.
            Place::Param(_) | Place::Return(_) => return 0,
        };
        self.places.get(&key).copied().unwrap_or(0)
    }
}
