//! A worker: the state of one host thread that runs blocks of a launch, and its functions for compiled code.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::code::Code;
use super::context::{Cached, Context, Record};
use super::copies::Copies;
use super::fault::{FaultKind, KernelFault};
use super::launch::{Heap, Launch, Reach};
use super::shadow::Shadow;
use super::watch;

/// Local memory for the stack of a thread with recursive functions.
const STACK: usize = 64 << 10;

/// The stack size of host threads that run recursive functions: a thousand calls deep, with room for large
/// frames.
const DEEP_STACK: usize = 64 << 20;
/// A larger frame may not fit the launching thread's stack.
const LARGE_FRAME: usize = 16 << 10;

/// The outcome of a launch, shared by its workers.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Not zero if it must end.
    pub stop: Arc<AtomicU32>,
    /// The first error.
    pub fault: Mutex<Option<Box<KernelFault>>>,
    /// The output of `printf`.
    pub printed: Mutex<Vec<u8>>,
}

/// The work of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work<'a> {
    /// The launch.
    pub launch: &'a Launch,
    /// The kernel's code.
    pub code: &'a Code,
    /// The memory that it may access.
    pub reach: Reach<'a>,
    /// What it allocates from.
    pub heap: Option<&'a dyn Heap>,
    /// Its outcome.
    pub outcome: &'a Outcome,
    /// The size of a thread's local memory.
    pub local_bytes: usize,
    /// The size of the block's shared memory.
    pub shared_bytes: usize,
    /// A number for the launch.
    pub grid: u64,
    /// The stack size of the host threads, if they are created for this launch.
    pub stack: Option<usize>,
}

/// Stack reserved for frames below the first compiled function, and for the functions that compiled code
/// calls.
const SPARE: usize = 1 << 20;

impl<'a> Work<'a> {
    /// The stack size that a host thread needs; `None` if any thread will do.
    pub(super) fn stack(code: &Code, calls_itself: bool) -> Option<usize> {
        let one = code.frame_bytes + 2 * SPARE;
        match calls_itself {
            true => Some(one.max(DEEP_STACK)),
            false => (code.frame_bytes > LARGE_FRAME).then_some(one),
        }
    }

    /// Whether blocks wait for each other, and may.
    pub(super) fn joins(&self) -> bool {
        self.code.joins && self.launch.cooperative
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.launch.grid.into_iter().map(u64::from).product()
    }

    /// The index of a block by its number.
    pub(super) fn block(&self, number: u64) -> [u32; 3] {
        let [width, height, _] = self.launch.grid.map(u64::from);
        [number % width, number / width % height, number / width / height]
            .map(|axis| u32::try_from(axis).unwrap_or(u32::MAX))
    }

    /// A host thread for blocks, to be started.
    pub(super) fn thread(&self) -> thread::Builder {
        let builder = thread::Builder::new().name("gpulend-blocks".to_owned());
        match self.stack {
            Some(stack) => builder.stack_size(stack),
            None => builder,
        }
    }

    /// The lowest stack address at which this thread may call a function.
    fn floor(&self) -> u64 {
        let Some(stack) = self.stack else { return 0 };
        let here = 0_u8;
        let here = &raw const here as u64;
        here.saturating_sub(stack as u64) + (self.code.frame_bytes + SPARE) as u64
    }

    /// The size of a thread's local memory.
    pub(super) fn local_bytes(frame: u32, calls_itself: bool) -> usize {
        frame as usize + if calls_itself { STACK } else { 0 }
    }

    pub(super) fn worker(self) -> Box<Worker<'a>> {
        Worker::new(self)
    }
}

/// A worker. Compiled code finds it through its context, which is its first field.
#[repr(C)]
pub(super) struct Worker<'a> {
    /// For compiled code.
    pub context: Context,
    /// What it runs.
    pub work: Work<'a>,
    /// The last accesses to shared memory.
    pub shadow: Shadow,
    /// The asynchronous copies that have begun.
    pub copies: Copies,
    /// For each of the sixteen barriers, the threads that arrived and continued.
    pub arrived: [u32; 16],
    sites: Vec<Cached>,
    // In units of 16 bytes, for alignment.
    shared: Vec<u128>,
    local: Vec<u128>,
    records: Vec<u128>,
    record_words: usize,
}

fn room(bytes: usize) -> Vec<u128> {
    vec![0; bytes.div_ceil(16)]
}

impl<'a> Worker<'a> {
    fn new(work: Work<'a>) -> Box<Self> {
        let launch = work.launch;
        let [x, y, z] = launch.block;
        let threads = x as usize * y as usize * z as usize;
        let each = work.local_bytes.next_multiple_of(16);
        let record_words = work.code.record_bytes.div_ceil(16);
        let (locals, records) =
            if work.code.waits { (each * threads, record_words * 16 * threads) } else { (each, 0) };
        let mut worker = Box::new(Self {
            context: Context {
                params: launch.params.as_ptr(),
                shared: ptr::null_mut(),
                shared_bytes: work.shared_bytes as u64,
                local: ptr::null_mut(),
                local_bytes: work.local_bytes as u64,
                floor: work.floor(),
                stop: Arc::as_ptr(&work.outcome.stop),
                sites: ptr::null_mut(),
                variables: launch.variables.as_ptr(),
                shadow: ptr::null_mut(),
                epoch: 0,
                written: [0; 2],
                block: [0; 3],
                threads: launch.block,
                blocks: launch.grid,
                dynamic_shared: launch.dynamic_shared,
                cooperative: u32::from(launch.cooperative),
                grid: work.grid,
                row: [0; 2],
                answer: 0,
            },
            work,
            shadow: Shadow::default(),
            copies: Copies::default(),
            arrived: [0; 16],
            sites: vec![Cached::default(); work.code.sites.len()],
            shared: room(work.shared_bytes),
            local: room(locals),
            records: room(records),
            record_words,
        });
        worker.context.shared = worker.shared.as_mut_ptr().cast();
        worker.context.local = worker.local.as_mut_ptr().cast();
        worker.context.sites = worker.sites.as_mut_ptr();
        worker.write_records();
        worker
    }

    /// The number of threads in a block.
    pub(super) fn threads(&self) -> usize {
        self.work.launch.block.iter().map(|axis| *axis as usize).product()
    }

    /// Begins a block.
    pub(super) fn begin(&mut self, block: [u32; 3]) {
        self.context.block = block;
        self.arrived = [0; 16];
        self.copies.begin();
        if self.work.launch.checks.shared && self.work.shared_bytes > 0 {
            let threads = self.threads();
            let Code { granule, copies, .. } = *self.work.code;
            self.shadow.begin(self.work.shared_bytes, granule, threads, copies);
            (self.context.shadow, self.context.epoch) = self.shadow.for_code();
        }
        for thread in 0..self.records.len() / self.record_words.max(1) {
            let place = self.record(thread);
            // SAFETY: there is a record for each thread, written when the worker was made.
            unsafe { (*place).resume = 0 };
        }
    }

    /// Writes the records of all threads: the thread's index and the address of its local memory.
    fn write_records(&mut self) {
        let [width, height, _] = self.work.launch.block;
        let each = self.work.local_bytes.next_multiple_of(16);
        for thread in 0..self.records.len() / self.record_words.max(1) {
            let linear = u32::try_from(thread).unwrap_or(u32::MAX);
            let rest = linear / width;
            let local = self.local.as_mut_ptr().cast::<u8>().wrapping_add(each * thread);
            let record = Record {
                resume: 0,
                site: 0,
                operands: [0; 6],
                results: [0; 2],
                thread: [linear % width, rest % height, rest / height],
                linear,
                local,
            };
            let place = self.record(thread);
            // SAFETY: there is room for a record of each thread, aligned for everything.
            unsafe { place.write(record) };
        }
    }

    /// Records that the block has passed a barrier.
    pub(super) fn pass_barrier(&mut self) {
        self.shadow.pass_barrier();
        (self.context.shadow, self.context.epoch) = self.shadow.for_code();
    }

    /// The record of a thread.
    pub(super) fn record(&mut self, thread: usize) -> *mut Record {
        self.records[thread * self.record_words..].as_mut_ptr().cast()
    }

    /// The address of a thread's local memory.
    pub(super) fn local_of(&self, thread: u64) -> u64 {
        let each = self.work.local_bytes.next_multiple_of(16) as u64;
        let base = self.local.as_ptr() as u64;
        if self.work.code.waits { base + each * thread } else { base }
    }

    /// Stores the memory that a site accessed.
    pub(super) fn remember(&mut self, site: usize, base: u64, bytes: u64) {
        let each = u64::from(self.work.code.sites[site].bytes).max(1);
        // Only aligned addresses are valid.
        let first = base.next_multiple_of(each);
        let limit = (base + bytes).saturating_sub(first) / each;
        self.sites[site] = Cached { base: first, limit };
    }

    /// Reports once that the launch exceeded its time limit.
    pub(super) fn end(&self) {
        if self.work.outcome.stop.load(Ordering::Relaxed) == watch::LATE {
            self.late(0, usize::MAX, "has not ended");
        }
    }

    /// Records that the launch exceeded its time limit.
    pub(super) fn late(&self, thread: u64, site: usize, what: &str) {
        let limit = self.work.launch.limit.as_secs_f64();
        let what = format!("{what} after {limit} s (GPULEND_SIM_TIMEOUT)");
        self.fail(FaultKind::Timeout, thread, site, None, what);
    }

    /// Records an error; the first of a launch counts.
    #[cold]
    pub(super) fn fail(
        &self,
        kind: FaultKind,
        thread: u64,
        site: usize,
        address: Option<u64>,
        what: String,
    ) {
        self.work.outcome.stop.store(watch::FAILED, Ordering::Relaxed);
        let mut first = self.work.outcome.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_some() {
            return;
        }
        let launch = self.work.launch;
        let [width, height, _] = launch.block;
        let linear = u32::try_from(thread).unwrap_or(u32::MAX);
        let found = self.work.code.sites.get(site);
        let source = found.and_then(|found| found.source).filter(|source| source.line > 0);
        let source = source.and_then(|source| {
            let file = launch.program.files().get(&source.file)?;
            Some((file.clone(), source.line))
        });
        *first = Some(Box::new(KernelFault {
            kind,
            kernel: launch.program.kernels()[launch.kernel].name.clone(),
            source,
            ptx_line: found.map_or(0, |found| found.line),
            block: self.context.block,
            thread: [linear % width, linear / width % height, linear / width / height],
            address,
            what,
        }));
    }
}
