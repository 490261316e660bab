//! Kinds of memory.
#![forbid(unsafe_code)]

use super::virtual_memory::Access;

/// The kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Device memory.
    Device,
    /// Device memory from a pool.
    Pool {
        /// The pool.
        pool: usize,
    },
    /// Pinned host memory from a pool.
    HostPool {
        /// The pool.
        pool: usize,
    },
    /// Managed memory from a pool.
    ManagedPool {
        /// The pool.
        pool: usize,
    },
    /// Device memory that a graph allocates.
    Graph,
    /// Pinned host memory.
    Pinned {
        /// As `cuMemHostGetFlags` returns them.
        flags: u32,
    },
    /// The caller's host memory, registered.
    Registered {
        /// As `cuMemHostGetFlags` returns them.
        flags: u32,
    },
    /// Managed memory.
    Managed,
    /// Device memory of a module's variable, freed with the module.
    Variable,
    /// Device memory of an array, which no address reaches.
    Array,
    /// Device memory of another process.
    Imported {
        /// The imported pool, or 0 if the memory has a handle of its own.
        pool: usize,
    },
    /// Physical memory at reserved addresses.
    Mapped {
        /// Its handle.
        physical: usize,
        /// The access of devices.
        access: Access,
    },
}

impl Kind {
    /// Returns whether it is device memory.
    #[must_use]
    pub fn is_device(self) -> bool {
        self.is_counted() || matches!(self, Self::Imported { .. } | Self::Mapped { .. })
    }

    /// Returns whether it is memory of a device of this process, whose bytes are counted.
    #[must_use]
    pub fn is_counted(self) -> bool {
        matches!(
            self,
            Self::Device | Self::Pool { .. } | Self::Variable | Self::Graph | Self::Array
        )
    }

    /// Returns the pool of this process that it was allocated from.
    #[must_use]
    pub fn pool(self) -> Option<usize> {
        match self {
            Self::Pool { pool } | Self::HostPool { pool } | Self::ManagedPool { pool } => {
                Some(pool)
            }
            _ => None,
        }
    }

    /// Returns whether it is managed memory.
    #[must_use]
    pub fn is_managed(self) -> bool {
        matches!(self, Self::Managed | Self::ManagedPool { .. })
    }

    /// Returns whether the program frees it by address, in stream order or not.
    #[must_use]
    pub fn is_allocated(self) -> bool {
        match self {
            Self::Device
            | Self::Pool { .. }
            | Self::HostPool { .. }
            | Self::ManagedPool { .. }
            | Self::Graph => true,
            // What has a handle of its own is closed.
            Self::Imported { pool } => pool != 0,
            _ => false,
        }
    }
}

/// The state of stream-ordered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It may be used.
    Live,
    /// Its release is queued.
    Leaving,
    /// It is a graph's, and no launch has allocated it.
    Asleep,
}
