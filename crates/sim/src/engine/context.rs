//! The records that compiled code and the engine share: their layout is fixed.
#![forbid(unsafe_code)]

use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

/// What a worker gives to the code it runs.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Context {
    /// The kernel's parameters.
    pub params: *const u8,
    /// The block's shared memory.
    pub shared: *mut u8,
    /// How long that is.
    pub shared_bytes: u64,
    /// The memory of a thread's own, where threads run one after another to their end.
    pub local: *mut u8,
    /// The end of a thread's memory, beyond which calls are nested too deep; counted from its beginning.
    pub local_bytes: u64,
    /// A function is called only while the host's stack reaches not so far down.
    pub floor: u64,
    /// Not zero when the launch is to end.
    pub stop: *const AtomicU32,
    /// For each place that touches memory, the memory that it touched last.
    pub sites: *mut Cached,
    /// The addresses of the module's variables.
    pub variables: *const u64,
    /// Who touched each word of shared memory: two numbers for each, as in [`super::shadow`].
    pub shadow: *mut u64,
    /// What a thread's mark there begins with.
    pub epoch: u64,
    /// The block.
    pub block: [u32; 3],
    /// Threads of a block.
    pub threads: [u32; 3],
    /// Blocks.
    pub blocks: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub dynamic_shared: u32,
    /// A number for the launch.
    pub grid: u64,
    /// The thread on the second and third axis, where threads run one after another: they change seldom, and a register
    /// each would be one less for the kernel.
    pub row: [u32; 2],
    /// What a hook answered that leaves all registers as they are, and so cannot return it.
    pub answer: u64,
}

/// Memory that a place in the code touched last. The access fits at `base` and at `limit` places after each other, each
/// as long as the access.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Cached {
    /// Where it begins.
    pub base: u64,
    /// How many places there are at which the access fits.
    pub limit: u64,
}

/// What is kept of a thread while others run. Saved registers follow it, eight bytes each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Record {
    /// Where it goes on.
    pub resume: u32,
    /// The place where it was left.
    pub site: u32,
    /// What it brought: a value, a lane, a clamp, a mask. Of barriers a truth value, the number, the threads.
    pub operands: [u64; 4],
    /// What it gets.
    pub results: [u64; 2],
    /// The thread on each axis.
    pub thread: [u32; 3],
    /// The thread's number in its block.
    pub linear: u32,
    /// The memory of its own.
    pub local: *mut u8,
}

/// What code that runs one thread answers.
pub(super) mod answer {
    /// The thread has ended, or the block.
    pub(in crate::engine) const DONE: i64 = 0;
    /// The thread waits for others.
    pub(in crate::engine) const WAITS: i64 = 1;
    /// The launch is to end.
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
        GRID = Context.grid;
        ROW = Context.row;
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
