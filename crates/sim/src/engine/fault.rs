//! A kernel's mistake and its place.
#![forbid(unsafe_code)]

/// What kind of mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It touched an address that is not live memory it may use.
    OutOfBounds,
    /// It touched memory at an address that is no multiple of the access's length.
    Misaligned,
    /// It read shared memory that no thread of the block has written.
    Uninitialised,
    /// Two threads touched the same shared memory, one of them writing, with no barrier between.
    Race,
    /// Threads of a block wait at different barriers, or one that others never reach.
    BarrierDivergence,
    /// Lanes of a warp wait for others that never come.
    WarpDeadlock,
    /// `assert` failed.
    Assertion,
    /// `trap`.
    Trap,
    /// It took too long.
    Timeout,
    /// Its calls are nested too deep.
    StackOverflow,
    /// It is too large to be compiled.
    NotCompiled,
}

/// The first mistake of a launch, which ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault {
    /// What kind.
    pub kind: FaultKind,
    /// The kernel's name.
    pub kernel: String,
    /// The file and line of the user's source, if the compiler kept them.
    pub source: Option<(String, u32)>,
    /// The line of the PTX text.
    pub ptx_line: u32,
    /// The block.
    pub block: [u32; 3],
    /// The thread in its block.
    pub thread: [u32; 3],
    /// The address that was touched; of shared and local memory the offset.
    pub address: Option<u64>,
    /// What happened, in words, without the place: "writes 4 bytes of shared memory at offset 1024 of 1024".
    pub what: String,
}

impl KernelFault {
    /// All of it in one sentence.
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
