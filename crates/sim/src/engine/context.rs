//! The records that compiled code and the engine share. Their layout is fixed.
#![forbid(unsafe_code)]

use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

/// The worker's data for compiled code.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Context {
    /// The kernel's parameters.
    pub params: *const u8,
    /// The block's shared memory.
    pub shared: *mut u8,
    /// Its size.
    pub shared_bytes: u64,
    /// The thread's local memory, if threads run one after another to their end.
    pub local: *mut u8,
    /// The size of a thread's local memory. Calls beyond it are nested too deep.
    pub local_bytes: u64,
    /// The lowest stack address at which a function may be called.
    pub floor: u64,
    /// Not zero if the launch must end.
    pub stop: *const AtomicU32,
    /// For each site that accesses memory, the memory that it accessed last.
    pub sites: *mut Cached,
    /// The addresses of the module's variables.
    pub variables: *const u64,
    /// The last accesses to each word of shared memory: two cells for each, see [`super::shadow`].
    pub shadow: *mut u64,
    /// The first bits of a thread's mark there.
    pub epoch: u64,
    /// The block's index.
    pub block: [u32; 3],
    /// The block size.
    pub threads: [u32; 3],
    /// The grid size.
    pub blocks: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub dynamic_shared: u32,
    /// Whether the launch is cooperative.
    pub cooperative: u32,
    /// A number for the launch.
    pub grid: u64,
    /// The thread's index on the second and third axis, if threads run one after another. They rarely change,
    /// and would take registers from the kernel.
    pub row: [u32; 2],
    /// The bytes that an access is about to write, for the hooks that compare them.
    pub written: [u64; 2],
    /// The result of a hook that preserves all registers and so cannot return it.
    pub answer: u64,
}

/// Memory that a site accessed last. The access may be at `base`, or up to `limit` times its own size after
/// it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Cached {
    /// The first address.
    pub base: u64,
    /// The number of positions at which the access fits.
    pub limit: u64,
}

/// The state of a suspended thread. Saved registers follow it, eight bytes each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Record {
    /// Where it resumes.
    pub resume: u32,
    /// The site where it is suspended.
    pub site: u32,
    /// Its operands: a mask, a value, a lane, a clamp. For barriers: the barrier's number, the thread count, a
    /// predicate. For matrices: a mask, and an address or registers.
    pub operands: [u64; 6],
    /// Its results.
    pub results: [u64; 2],
    /// The thread's index.
    pub thread: [u32; 3],
    /// The thread's number in its block.
    pub linear: u32,
    /// Its local memory.
    pub local: *mut u8,
}

/// The results of running one thread.
pub(super) mod answer {
    /// The thread, or the block, has ended.
    pub(in crate::engine) const DONE: i64 = 0;
    /// The thread waits for others.
    pub(in crate::engine) const WAITS: i64 = 1;
    /// The launch must end.
    pub(in crate::engine) const STOP: i64 = 2;
}

/// The offsets of fields, for compiled code. Both records are far shorter than `i32::MAX`.
pub(super) mod at {
    use super::{Context, Record, offset_of};

    macro_rules! offsets {
        ($($name:ident = $owner:ident.$field:ident;)*) => {
            $(#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "below 200")]
            pub(in crate::engine) const $name: i32 = offset_of!($owner, $field) as i32;)*
        };
    }

    offsets! {
        PARAMS = Context.params;
        SHARED = Context.shared;
        SHARED_BYTES = Context.shared_bytes;
        LOCAL = Context.local;
        LOCAL_BYTES = Context.local_bytes;
        FLOOR = Context.floor;
        STOP = Context.stop;
        SITES = Context.sites;
        VARIABLES = Context.variables;
        SHADOW = Context.shadow;
        EPOCH = Context.epoch;
        BLOCK = Context.block;
        THREADS = Context.threads;
        BLOCKS = Context.blocks;
        DYNAMIC = Context.dynamic_shared;
        COOPERATIVE = Context.cooperative;
        GRID = Context.grid;
        ROW = Context.row;
        WRITTEN = Context.written;
        ANSWER = Context.answer;
        RESUME = Record.resume;
        SITE = Record.site;
        OPERANDS = Record.operands;
        RESULTS = Record.results;
        THREAD = Record.thread;
        LINEAR = Record.linear;
        RECORD_LOCAL = Record.local;
    }
}
