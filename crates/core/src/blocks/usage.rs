//! How much memory a pool has, and who uses it.
#![forbid(unsafe_code)]

/// Who asked for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// A lease.
    Lease,
    /// torch, whose allocator was replaced.
    Torch,
    /// CuPy, whose allocator was replaced.
    Cupy,
    /// Numba, whose memory manager was replaced.
    Numba,
    /// A program that took the block itself, without a lease.
    Block,
}

impl User {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Lease, Self::Torch, Self::Cupy, Self::Numba, Self::Block];

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "leases",
            Self::Torch => "torch",
            Self::Cupy => "cupy",
            Self::Numba => "numba",
            Self::Block => "blocks",
        }
    }
}

/// How much memory a device's pool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of blocks in use.
    pub live: u64,
    /// Bytes of free blocks that are kept.
    pub cached: u64,
    /// The most bytes that were in use at one time.
    pub peak: u64,
    /// Bytes of all segments: what the driver gave.
    pub reserved: u64,
    /// The largest free block, if all neighbours were merged.
    pub largest: u64,
    /// The number of blocks in use.
    pub blocks: u64,
    /// The number of segments.
    pub segments: u64,
    /// Bytes in use by each of [`User::ALL`].
    pub users: [u64; User::ALL.len()],
}

impl Usage {
    /// How far the cached memory is broken up: 0 if it is one block, nearly 1 if it is many small ones.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        if self.cached == 0 {
            return 0.0;
        }
        1.0 - self.largest as f64 / self.cached as f64
    }
}
