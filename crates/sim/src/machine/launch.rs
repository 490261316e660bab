//! Launches: the checks of a call, the memory that a kernel may access, and the report of its errors.
//!
//! A kernel's error ends only that launch; later work still runs. The next call that waits or queries in its
//! context returns the error, once, unless errors are sticky (`GPULEND_SIM_STICKY`).
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::function::{Description, THREADS};
use super::graph::{Draft, Given, Step};
use super::image::{Kind as Refused, Refusal};
use super::memory::{Found, Kind};
use super::module::place;
use super::occupancy::{self, MULTIPROCESSORS};
use super::report::Fault;
use super::stream::Submitted;
use super::virtual_memory::Access;
use super::{Caller, Machine, State};
use crate::config::Check;
use crate::engine::launch::Checks;
use crate::engine::{self, FaultKind, KernelFault, Launch};
use crate::machine::operation::Work;
use crate::status::{Outcome, Status};

/// The maximum block size on each axis.
const BLOCK: [u32; 3] = [1024, 1024, 64];
const GRID: [u32; 3] = [i32::MAX.cast_unsigned(), 65_535, 65_535];
/// Offsets into shared and local memory are below this, and no allocation is at such an address.
const OFFSETS: usize = 1 << 20;

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
pub const COOPERATIVE: i32 = 2;

/// The arguments of a launch.
#[derive(Clone, Debug)]
pub struct Request {
    /// The kernel, described for the context of the stream.
    pub kernel: Description,
    /// Blocks on each axis.
    pub grid: [u32; 3],
    /// Threads per block on each axis.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared: u32,
    /// Whether its blocks wait for each other.
    pub cooperative: bool,
    /// The parameters.
    pub params: Vec<u8>,
    /// Host memory that it may access in addition: start and size.
    pub admitted: Vec<(u64, u64)>,
    /// Parts of allocations: start and size. Of an allocation with such parts, only they may be accessed.
    pub spans: Vec<(u64, u64)>,
}

/// A kernel's error that must be reported.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The status for the caller.
    pub status: Status,
    /// The kernel's name.
    pub kernel: String,
    /// What happened, and where.
    pub what: String,
    /// The address accessed, or 0.
    pub address: u64,
}

thread_local! {
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

impl Failure {
    /// Keeps the error for this thread, which gets the status, and returns the status.
    pub(super) fn keep_for_thread(&self) -> Status {
        // Fails only while the thread ends.
        let _ = LAST.try_with(|last| last.replace(Some(self.clone())));
        self.status
    }

    /// Returns the error that was last reported to this thread.
    #[must_use]
    pub fn last_of_thread() -> Option<Self> {
        LAST.try_with(|last| last.borrow().clone()).ok().flatten()
    }
}

/// A launch that is queued or captured.
#[derive(Clone, Debug)]
pub struct Launched {
    /// The launch for the engine.
    pub launch: Launch,
    /// How many of its blocks fit on the device at the same time.
    pub most_blocks: u64,
    /// The module of the kernel.
    pub module: usize,
    /// The driver function that was called.
    pub function: &'static str,
    /// As in [`Request`].
    pub admitted: Vec<(u64, u64)>,
    /// As in [`Request`].
    pub spans: Vec<(u64, u64)>,
}

/// Refuses a launch beyond the device's limits.
fn check(request: &Request) -> Outcome<()> {
    let fits = |counts: [u32; 3], most: [u32; 3]| {
        counts.iter().zip(most).all(|(count, most)| (1..=most).contains(count))
    };
    let threads = request.block.into_iter().fold(1, u32::saturating_mul);
    if !fits(request.block, BLOCK) || !fits(request.grid, GRID) || threads > THREADS {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    if threads > request.kernel.most_threads()? {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    let own = request.kernel.kernel()?.shared_bytes;
    if request.shared > request.kernel.max_dynamic
        || own.saturating_add(request.shared) > request.kernel.image.processor.most_shared
    {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    Ok(())
}

/// Returns CUDA's code for an error.
#[must_use]
pub fn status_of(kind: FaultKind) -> Status {
    match kind {
        FaultKind::OutOfBounds => Status::ERROR_ILLEGAL_ADDRESS,
        FaultKind::Misaligned => Status::ERROR_MISALIGNED_ADDRESS,
        FaultKind::Assertion => Status::ERROR_ASSERT,
        FaultKind::WildCall => Status::ERROR_INVALID_PC,
        FaultKind::Timeout => Status::ERROR_LAUNCH_TIMEOUT,
        FaultKind::NotCompiled => Status::ERROR_LAUNCH_OUT_OF_RESOURCES,
        FaultKind::Trap
        | FaultKind::WarpDeadlock
        | FaultKind::BarrierDivergence
        | FaultKind::Race
        | FaultKind::Uninitialised
        | FaultKind::BadFree
        | FaultKind::StackOverflow => Status::ERROR_LAUNCH_FAILED,
    }
}

impl Launched {
    /// Makes it cooperative, or plain.
    ///
    /// # Errors
    ///
    /// `COOPERATIVE_LAUNCH_TOO_LARGE`.
    pub fn set_cooperative(&mut self, cooperative: bool) -> Outcome<()> {
        let blocks = self.launch.grid.into_iter().map(u64::from).product::<u64>();
        if cooperative && blocks > self.most_blocks {
            return Err(Status::ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        self.launch.cooperative = cooperative;
        Ok(())
    }

    /// Runs the kernel to its end.
    ///
    /// # Errors
    ///
    /// Its first error.
    pub(super) fn run(
        &self,
        reach: engine::Reach<'_>,
        heap: Option<&dyn engine::Heap>,
    ) -> Result<(), Box<KernelFault>> {
        // A bug of the engine must not block the stream for ever.
        catch_unwind(AssertUnwindSafe(|| engine::run(&self.launch, reach, heap))).unwrap_or_else(
            |_| {
                let kernels = self.launch.program.kernels();
                Err(Box::new(KernelFault {
                    kind: FaultKind::Trap,
                    kernel: kernels
                        .get(self.launch.kernel)
                        .map_or_else(String::new, |found| found.name.clone()),
                    source: None,
                    ptx_line: 0,
                    block: [0; 3],
                    thread: [0; 3],
                    address: None,
                    what: "a bug of the simulated GPU: the engine panicked".to_owned(),
                }))
            },
        )
    }
}

/// The parts of an allocation that a launch may access: the named ones, or the whole.
fn parts((base, bytes): (u64, u64), spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let end = base + bytes;
    let inside = |(start, _): &&(u64, u64)| (base..end).contains(start);
    let cut = |(start, length): &(u64, u64)| (*start, (*length).min(end - *start));
    let named: Vec<(u64, u64)> = spans.iter().filter(inside).map(cut).collect();
    if named.is_empty() { vec![(base, bytes)] } else { named }
}

/// Sorts ranges and merges those that overlap. Ranges that only touch stay separate.
fn in_order(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.retain(|(_, bytes)| *bytes > 0);
    ranges.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (start, bytes) in ranges {
        match apart.last_mut() {
            Some((before, length)) if start - *before < *length => {
                *length = (*length).max(start - *before + bytes);
            }
            _ => apart.push((start, bytes)),
        }
    }
    apart
}

impl State {
    /// Returns the allocations that words of the parameters point into, and the variables of the module.
    fn touched(&self, params: &[u8], variables: &[u64]) -> Vec<usize> {
        let words =
            params.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
        let mut touched: Vec<usize> = words
            .filter_map(|address| match self.memory.find(place(address)) {
                Found::Allocation(base, _) => Some(base),
                Found::Nothing | Found::Elsewhere => None,
            })
            .chain(variables.iter().filter(|address| **address != 0).map(|address| place(*address)))
            .collect();
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Returns the memory that a launch may access now, as sorted starts and sizes: memory of its device and
    /// its peers, and host memory that devices can access.
    pub(super) fn reach(&self, context: usize, launched: &Launched) -> Vec<(u64, u64)> {
        let Some(found) = self.contexts.get(context) else { return Vec::new() };
        let mut devices = vec![found.device];
        devices.extend(found.peers.iter().filter_map(|peer| self.device_of(*peer)));
        let reaches = |base: usize, kind: Kind, device: usize| match kind {
            Kind::Device | Kind::Variable => devices.contains(&device),
            Kind::Array => false,
            // Opening it enabled the access of peers.
            Kind::Imported { .. } => true,
            Kind::Mapped { access, .. } => access.of(found.device) != Access::NONE,
            Kind::Pool { pool } => {
                let access = self.pools.get(pool).and_then(|pool| pool.access.get(&found.device));
                devices.contains(&device) || access.is_some_and(|flags| *flags != 0)
            }
            Kind::Graph => {
                let memory = self.reserved.get(&base);
                devices.contains(&device)
                    || memory.is_some_and(|memory| memory.peers.contains(&found.device))
            }
            Kind::Pinned { .. }
            | Kind::Registered { .. }
            | Kind::Managed
            | Kind::HostPool { .. }
            | Kind::ManagedPool { .. } => true,
        };
        let live = self
            .memory
            .iter()
            .filter(|(base, allocation)| reaches(*base, allocation.kind, allocation.device))
            .filter(|(base, allocation)| self.is_awake(*base, allocation.kind))
            // The caller may have unmapped registered memory.
            .filter(|(_, allocation)| allocation.range.is_mapped())
            .flat_map(|(base, allocation)| {
                let whole = (base as u64, allocation.range.bytes() as u64);
                let variable = matches!(allocation.kind, Kind::Variable);
                parts(whole, if variable { &[] } else { &launched.spans })
            });
        in_order(live.chain(launched.admitted.iter().copied()).collect())
    }

    /// Returns the mapped memory that a launch may read and not write, as sorted starts and sizes.
    pub(super) fn read_only(&self, context: usize) -> Vec<(u64, u64)> {
        let device = self.device_of(context).unwrap_or(0);
        let reads = |kind: Kind| matches!(kind, Kind::Mapped { access, .. } if access.of(device) == Access::READ);
        let mapped = self.memory.iter().filter(|(_, allocation)| reads(allocation.kind));
        mapped.map(|(base, allocation)| (base as u64, allocation.range.bytes() as u64)).collect()
    }

    /// Records a kernel's error: in the report, on stderr unless the report goes to a file, and for the next
    /// call that waits in its context.
    pub(super) fn kernel_failed(
        &mut self,
        context: usize,
        launched: &Launched,
        fault: &KernelFault,
    ) {
        let status = status_of(fault.kind);
        let address = fault.address.map_or(0, place);
        let nearest = self.memory.nearest(address).filter(|_| address >= OFFSETS);
        let words =
            nearest.as_ref().map(|nearest| format!("; nearest: {nearest}")).unwrap_or_default();
        let mut what = fault.sentence();
        if !launched.spans.is_empty() && matches!(self.memory.find(address), Found::Allocation(..))
        {
            // The address is in an allocation, but outside of the named parts.
            what =
                what.replace("where the device has no memory", "beside the arrays of the launch");
        }
        let whole = format!("{what}{words}");
        if self.config.report.is_none() {
            let _ = writeln!(std::io::stderr(), "gpulend: simulated GPU: {whole}");
        }
        self.report.add(Fault { function: launched.function, what, address, nearest, status });
        if let Some(context) = self.contexts.get_mut(context) {
            let address = fault.address.filter(|_| address >= OFFSETS).unwrap_or(0);
            let kernel = fault.kernel.clone();
            context.failure.get_or_insert(Failure { status, kernel, what: whole, address });
        }
    }

    /// Reports a kernel's error of a context to a waiting caller: once, or every time if errors are sticky.
    ///
    /// # Errors
    ///
    /// The error.
    pub fn report_failure(&mut self, caller: &Caller, context: usize) -> Outcome<()> {
        let sticky = self.config.sticky;
        let Some(context) = self.contexts.get_mut(context) else { return Ok(()) };
        // A passive caller leaves it to one that uses the context.
        if !sticky && caller.passive {
            return Ok(());
        }
        let Some(failure) = context.failure.clone() else { return Ok(()) };
        if !sticky {
            context.failure = None;
        }
        Err(failure.keep_for_thread())
    }

    /// Checks a launch. Returns its work and the memory that it may access.
    fn assemble(
        &mut self,
        caller: &Caller,
        context: usize,
        request: Request,
    ) -> Outcome<(Work, Vec<usize>)> {
        check(&request)?;
        let kernel = request.kernel.kernel()?;
        let mut params = request.params;
        if params.len() < kernel.param_bytes as usize {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        params.truncate(kernel.param_bytes as usize);
        let module = request.kernel.module;
        let variables = Arc::clone(&self.module(caller, module)?.variables);
        let touches = self.touched(&params, &variables);
        if request.kernel.image.program.allocates() {
            self.need_heap(context)?;
        }
        let launch = Launch {
            program: Arc::clone(&request.kernel.image.program),
            kernel: request.kernel.number,
            grid: request.grid,
            block: request.block,
            dynamic_shared: request.shared,
            params: params.into(),
            variables,
            checks: Checks {
                memory: self.config.check != Check::Off,
                shared: self.config.check == Check::Races,
            },
            limit: self.config.timeout,
            cooperative: false,
        };
        let threads = request.block.into_iter().product();
        let most = occupancy::blocks(&request.kernel, threads, request.shared as usize)?;
        let most_blocks = u64::from(most) * u64::from(MULTIPROCESSORS);
        let Request { cooperative, admitted, spans, .. } = request;
        let function = caller.function;
        let mut launched = Launched { launch, most_blocks, module, function, admitted, spans };
        launched.set_cooperative(cooperative)?;
        Ok((Work::Launch(Arc::new(launched)), touches))
    }

    /// Like [`State::report_failure`], for the context of a stream.
    ///
    /// # Errors
    ///
    /// The error.
    pub fn report_failure_of_stream(&mut self, caller: &Caller, stream: usize) -> Outcome<()> {
        let context = self.streams.get(stream).map(|stream| stream.context);
        context.map_or(Ok(()), |context| self.report_failure(caller, context))
    }
}

impl Machine {
    /// Describes the kernel of a handle for a stream.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, also for a function of another context.
    pub fn describe_for(
        &self,
        caller: &Caller,
        handle: usize,
        stream: usize,
    ) -> Outcome<Description> {
        let context = self.lock().stream(caller, stream)?.context;
        self.describe_in(caller, handle, context)
    }

    /// Describes the kernel of a handle for a context.
    ///
    /// # Errors
    ///
    /// As [`Machine::describe_for`].
    pub fn describe_in(
        &self,
        caller: &Caller,
        handle: usize,
        context: usize,
    ) -> Outcome<Description> {
        let mut state = self.lock();
        state.context(context)?;
        let function = state.resolve_function(caller, handle, Ok(context))?;
        let description = state.describe(caller, function)?;
        if description.context == context {
            Ok(description)
        } else {
            Err(Status::ERROR_INVALID_HANDLE)
        }
    }

    /// Returns the context in which a node runs a kernel: that of a function, or `context` for a library's kernel.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or that of `context`.
    pub fn context_of_kernel(
        &self,
        caller: &Caller,
        handle: usize,
        context: Outcome<usize>,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        let function = state.resolve_function(caller, handle, context)?;
        let module = state.function(caller, function)?.module;
        Ok(state.module(caller, module)?.context)
    }

    /// Launches a kernel in stream order.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` beyond the limits of the device or the kernel, or an error of a capture. With
    /// `CUDA_LAUNCH_BLOCKING`, also the kernel's error.
    pub fn launch(&self, caller: &Caller, stream: usize, request: Request) -> Outcome<()> {
        let mut state = self.lock();
        let context = state.stream(caller, stream)?.context;
        let (work, touches) = state.assemble(caller, context, request)?;
        let submitted = state.submit(caller, stream, work, &touches)?;
        let Submitted::Queued(id) = submitted else { return Ok(()) };
        if !state.config.blocking {
            return Ok(());
        }
        drop(state);
        self.finish(caller, &[id])?;
        self.lock().report_failure_of_stream(caller, stream)
    }

    /// Makes a draft of a node that launches a kernel, which the caller named by `handle`.
    ///
    /// # Errors
    ///
    /// As [`Machine::launch`].
    pub fn draft_launch(
        &self,
        caller: &Caller,
        handle: usize,
        context: usize,
        request: Request,
    ) -> Outcome<Draft> {
        let mut state = self.lock();
        let (work, bases) = state.assemble(caller, context, request)?;
        let touches = state.touches(&bases);
        let given = Given::Kernel(handle);
        Ok(Draft { step: Step::Work(work), touches, context: Some(context), given })
    }

    /// Refuses an unsupported launch, and names the feature.
    ///
    /// # Errors
    ///
    /// `NOT_SUPPORTED`, always.
    pub fn refuse_launch(&self, caller: &Caller, what: &str) -> Outcome<()> {
        let refusal = Refusal {
            status: Status::ERROR_NOT_SUPPORTED,
            message: format!("{what}: not on the simulated GPU"),
            kind: Refused::Launch,
        };
        let mut state = self.lock();
        state.explain(&refusal);
        Err(state.refused(caller, &refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_become_one_and_neighbours_stay_apart() {
        let ranges = vec![(300, 10), (100, 50), (120, 80), (200, 8), (110, 4), (400, 0)];
        assert_eq!(in_order(ranges), [(100, 100), (200, 8), (300, 10)]);
    }
}
