//! A kernel's error and its location.
#![forbid(unsafe_code)]

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It accessed an address outside of the live memory that it may use.
    OutOfBounds,
    /// It accessed an address that is not aligned to the size of the access.
    Misaligned,
    /// It read shared memory that no thread of the block has written.
    Uninitialised,
    /// Two threads accessed the same shared memory, at least one of them writing, without a barrier in
    /// between.
    Race,
    /// Threads of a block wait at different barriers, or at one that others never reach.
    BarrierDivergence,
    /// Lanes of a warp wait for others that never arrive.
    WarpDeadlock,
    /// `assert` failed.
    Assertion,
    /// `trap`.
    Trap,
    /// It exceeded the time limit.
    Timeout,
    /// It called an address that is not that of a function with the right parameters and results.
    WildCall,
    /// It freed what it had not allocated, or had freed already.
    BadFree,
    /// Its calls are nested too deep.
    StackOverflow,
    /// It is too large to be compiled.
    NotCompiled,
}

/// The first error of a launch, which ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault {
    /// Its kind.
    pub kind: FaultKind,
    /// The kernel's name.
    pub kernel: String,
    /// The file and line of the user's source, if known.
    pub source: Option<(String, u32)>,
    /// The line of the PTX text.
    pub ptx_line: u32,
    /// The block.
    pub block: [u32; 3],
    /// The thread in its block.
    pub thread: [u32; 3],
    /// The address accessed; for shared and local memory, the offset.
    pub address: Option<u64>,
    /// What happened, without the location: "writes 4 bytes of shared memory at offset 1024 of 1024".
    pub what: String,
}

impl KernelFault {
    /// The complete message.
    #[must_use]
    pub fn sentence(&self) -> String {
        let place = match &self.source {
            Some((file, line)) => format!("{file}:{line}"),
            None => format!("PTX line {}", self.ptx_line),
        };
        let [bx, by, bz] = self.block;
        let [tx, ty, tz] = self.thread;
        format!(
            "kernel {} at {place}, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}): {}",
            self.kernel, self.what
        )
    }
}
