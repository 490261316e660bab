//! One launch of a kernel.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::{self, Write};
use std::num::NonZero;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::block;
use super::compiled::NotCompiled;
use super::fault::{FaultKind, KernelFault};
use super::program::Program;
use super::together;
use super::watch::Limit;
use super::worker::{Outcome, Work, Worker};

/// Which errors are checked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Memory: bounds, alignment, liveness.
    pub memory: bool,
    /// Shared memory: races, and reads of memory that was never written.
    pub shared: bool,
}

/// Memory that kernels allocate and free. Several threads use it at once.
pub trait Heap: fmt::Debug + Send + Sync {
    /// Allocates. Returns 0 if there is no room.
    fn allocate(&self, bytes: u64) -> u64;

    /// Frees a block by its address.
    ///
    /// # Errors
    ///
    /// Why it cannot be freed: "which was freed already".
    fn free(&self, address: u64) -> Result<(), &'static str>;

    /// What is at an address.
    fn find(&self, address: u64) -> Spot;
}

/// A place in a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// In a block: its start and size.
    Live(u64, u64),
    /// In a block that was freed.
    Freed,
    /// In no block, or outside of the heap.
    Elsewhere,
}

/// A launch. Its creator has checked grid and block against the device's limits.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The module.
    pub program: Arc<Program>,
    /// The kernel's index in [`Program::kernels`].
    pub kernel: usize,
    /// Blocks on each axis.
    pub grid: [u32; 3],
    /// Threads per block on each axis.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// The parameters, of [`super::Kernel::param_bytes`] bytes.
    pub params: Arc<[u8]>,
    /// The address of each variable of the module.
    pub variables: Arc<[u64]>,
    /// The enabled checks.
    pub checks: Checks,
    /// The time limit; zero means none.
    pub limit: Duration,
    /// Whether blocks may wait for each other at the barrier of the grid.
    pub cooperative: bool,
}

/// Blocks run on several host threads if the launch has at least this many threads.
const WORTH_SHARING: u64 = 4096;

/// The most local memory for all threads of a block, or of all blocks that wait for each other.
const MOST_LOCAL: usize = 1 << 30;

/// The memory that a launch may access: starts and sizes, sorted and without overlaps.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// All of it.
    pub memory: &'a [(u64, u64)],
    /// Parts of it that it may not write.
    pub read_only: &'a [(u64, u64)],
}

impl<'a> Reach<'a> {
    /// Returns memory that it may read and write.
    #[must_use]
    pub fn all(memory: &'a [(u64, u64)]) -> Self {
        Self { memory, read_only: &[] }
    }
}

/// Runs a launch to its end. `heap` is what its kernel allocates from; without one, it gets nothing.
///
/// # Errors
///
/// The first error. Blocks that ran before it have had their effects.
pub fn run(
    launch: &Launch,
    reach: Reach<'_>,
    heap: Option<&dyn Heap>,
) -> Result<(), Box<KernelFault>> {
    static LAUNCHES: AtomicU64 = AtomicU64::new(1);
    let kernel = &launch.program.kernels()[launch.kernel];
    // An error of the whole launch, before any thread runs.
    let refuse = |kind: FaultKind, what: String| {
        Err(Box::new(KernelFault {
            kind,
            kernel: kernel.name.clone(),
            source: None,
            ptx_line: 0,
            block: [0; 3],
            thread: [0; 3],
            address: None,
            what,
        }))
    };
    let code = match launch.program.code(launch.kernel, launch.checks, launch.limit) {
        Ok(code) => code,
        Err(NotCompiled::Late) => {
            let (limit, length) = (launch.limit.as_secs_f64(), kernel.statements);
            let what = format!(
                "is not compiled after {limit} s (GPULEND_SIM_TIMEOUT): it has {length} instructions once its calls are \
                 put in place"
            );
            return refuse(FaultKind::Timeout, what);
        }
        Err(NotCompiled::Refused(why)) => {
            let length = kernel.statements;
            let what = format!(
                "cannot be compiled: {why}; it has {length} instructions once its calls are put in place"
            );
            return refuse(FaultKind::NotCompiled, what);
        }
    };
    let outcome = Outcome {
        stop: Arc::new(AtomicU32::new(0)),
        fault: Mutex::new(None),
        printed: Mutex::new(Vec::new()),
    };
    let dynamic = launch.program.dynamic_start(launch.kernel);
    let shared = if launch.dynamic_shared > 0 {
        u64::from(dynamic) + u64::from(launch.dynamic_shared)
    } else {
        u64::from(kernel.shared_bytes)
    };
    let work = Work {
        launch,
        code: &code,
        reach,
        heap,
        outcome: &outcome,
        local_bytes: Work::local_bytes(kernel.local_bytes, launch.program.calls_itself()),
        shared_bytes: usize::try_from(shared).unwrap_or(usize::MAX),
        grid: LAUNCHES.fetch_add(1, Ordering::Relaxed),
        stack: Work::stack(&code, launch.program.calls_itself()),
    };
    let [x, y, z] = launch.block.map(|axis| axis as usize);
    let each = work.local_bytes + code.record_bytes;
    // Blocks that join are all there at the same time.
    let blocks = if work.joins() { work.blocks() } else { 1 };
    let threads = usize::try_from(blocks).unwrap_or(usize::MAX).saturating_mul(x * y * z);
    if code.waits && each.saturating_mul(threads) > MOST_LOCAL {
        let what = format!(
            "its threads want {each} bytes of memory each, and {threads} of them run at the same time"
        );
        return refuse(FaultKind::StackOverflow, what);
    }
    let limit = Limit::new(&outcome.stop, launch.limit);
    let ran = run_blocks(work);
    drop(limit);
    if !ran {
        let stack = work.stack.unwrap_or(0);
        let what = format!("the host has no thread with {stack} bytes of stack for it");
        return refuse(FaultKind::StackOverflow, what);
    }
    let printed = outcome.printed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !printed.is_empty() {
        let mut out = io::stdout().lock();
        // A closed output must not make the launch fail.
        let _ = out.write_all(&printed).and_then(|()| out.flush());
    }
    match outcome.fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

/// Runs all blocks. Returns whether a host thread could be started.
fn run_blocks(work: Work<'_>) -> bool {
    let blocks = work.blocks();
    let threads = work.launch.block.into_iter().map(u64::from).product::<u64>();
    let cores = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let small = blocks.saturating_mul(threads) < WORTH_SHARING;
    let helpers = if small { 1 } else { blocks.min(cores) };
    if work.joins() {
        return together::run(work, helpers);
    }
    let next = AtomicU64::new(0);
    // A few blocks at a time, because the counter is shared.
    let step = (blocks / (helpers * 16)).clamp(1, 64);
    let job = || {
        let mut worker = work.worker();
        loop {
            let first = next.fetch_add(step, Ordering::Relaxed);
            if first >= blocks {
                return;
            }
            for block in first..(first + step).min(blocks) {
                let go = work.outcome.stop.load(Ordering::Relaxed) == 0;
                if !go || !run_block(&mut worker, block) {
                    return worker.end();
                }
            }
        }
    };
    // The caller's stack may be small, and recursive functions need much.
    let own = work.stack.is_none();
    thread::scope(|scope| {
        let mut made = 0;
        for _ in u64::from(own)..helpers {
            made += usize::from(work.thread().spawn_scoped(scope, job).is_ok());
        }
        if own {
            job();
        }
        own || made > 0
    })
}

/// Runs one block by its number. Returns whether the launch continues.
fn run_block(worker: &mut Worker<'_>, number: u64) -> bool {
    worker.begin(worker.work.block(number));
    if worker.work.code.waits {
        return block::run(worker).is_ok();
    }
    block::run_independent(worker)
}
