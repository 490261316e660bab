//! Launches: the checks of a call, the memory that a kernel may touch, and the report of its mistakes.
//!
//! A kernel's mistake ends only that launch: later work still runs. The next call that
//! waits or queries in its context returns it, once, unless mistakes are sticky (`GPULEND_SIM_STICKY`).
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::function::{Description, MOST_SHARED, THREADS};
use super::image::{Kind as Refused, Refusal};
use super::memory::{Found, Kind};
use super::module::place;
use super::report::Fault;
use super::stream::Submitted;
use super::{Caller, Machine, State};
use crate::config::Check;
use crate::engine::launch::Checks;
use crate::engine::{self, FaultKind, KernelFault, Launch};
use crate::machine::operation::Work;
use crate::status::{Outcome, Status};

/// The most threads of a block on each axis, and blocks of a grid.
const BLOCK: [u32; 3] = [1024, 1024, 64];
const GRID: [u32; 3] = [i32::MAX.cast_unsigned(), 65_535, 65_535];
/// Offsets into shared and local memory are less than this, and no allocation is near such an address.
const OFFSETS: usize = 1 << 20;

/// How a kernel shall be launched.
#[derive(Clone, Debug)]
pub struct Request {
    /// The kernel, as it was described for the context of the stream.
    pub kernel: Description,
    /// Blocks on each axis.
    pub grid: [u32; 3],
    /// Threads of a block on each axis.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared: u32,
    /// The parameters.
    pub params: Vec<u8>,
    /// Memory of the host that it may touch beside what the machine knows: beginning and length.
    pub admitted: Vec<(u64, u64)>,
    /// Parts of allocations, beginning and length: of an allocation with such parts it may touch nothing else.
    pub spans: Vec<(u64, u64)>,
}

/// A kernel's mistake that must be reported.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What a caller is answered.
    pub status: Status,
    /// The kernel's name.
    pub kernel: String,
    /// What happened, and where.
    pub what: String,
    /// The address that was touched; 0 if it is about none.
    pub address: u64,
}

thread_local! {
    static TOLD: RefCell<Option<Failure>> = const { RefCell::new(None) };
}

impl Failure {
    /// Keeps the whole of it for the thread that gets the status, and returns that.
    pub(super) fn tell(&self) -> Status {
        // A thread that is ending has no place for it any more.
        let _ = TOLD.try_with(|told| told.replace(Some(self.clone())));
        self.status
    }

    /// Returns the mistake that was last reported to this thread.
    #[must_use]
    pub fn told() -> Option<Self> {
        TOLD.try_with(|told| told.borrow().clone()).ok().flatten()
    }
}

/// A launch that is queued or captured.
#[derive(Debug)]
pub struct Launched {
    /// What the engine runs.
    pub launch: Launch,
    /// The module of the kernel.
    pub module: usize,
    /// The driver function that was called.
    pub function: &'static str,
    /// As in [`Request`].
    pub admitted: Vec<(u64, u64)>,
    /// As in [`Request`].
    pub spans: Vec<(u64, u64)>,
}

/// Refuses what the device cannot launch.
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
        || own.saturating_add(request.shared) > MOST_SHARED
    {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    Ok(())
}

/// Returns what a mistake is called by CUDA.
#[must_use]
pub fn status_of(kind: FaultKind) -> Status {
    match kind {
        FaultKind::OutOfBounds => Status::ERROR_ILLEGAL_ADDRESS,
        FaultKind::Misaligned => Status::ERROR_MISALIGNED_ADDRESS,
        FaultKind::Assertion => Status::ERROR_ASSERT,
        FaultKind::Timeout => Status::ERROR_LAUNCH_TIMEOUT,
        FaultKind::NotCompiled => Status::ERROR_LAUNCH_OUT_OF_RESOURCES,
        FaultKind::Trap
        | FaultKind::WarpDeadlock
        | FaultKind::BarrierDivergence
        | FaultKind::Race
        | FaultKind::Uninitialised
        | FaultKind::StackOverflow => Status::ERROR_LAUNCH_FAILED,
    }
}

impl Launched {
    /// Runs the kernel to its end.
    ///
    /// # Errors
    ///
    /// Its first mistake.
    pub(super) fn run(&self, memory: &[(u64, u64)]) -> Result<(), Box<KernelFault>> {
        // A bug here must not leave the stream waiting for this launch for ever.
        catch_unwind(AssertUnwindSafe(|| engine::run(&self.launch, memory))).unwrap_or_else(|_| {
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
        })
    }
}

/// Sorts ranges and makes one of those that overlap; those that merely touch stay apart.
/// The parts of an allocation that a launch may touch: those that were named, or the whole.
fn parts((base, bytes): (u64, u64), spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let end = base + bytes;
    let inside = |(start, _): &&(u64, u64)| (base..end).contains(start);
    let cut = |(start, length): &(u64, u64)| (*start, (*length).min(end - *start));
    let named: Vec<(u64, u64)> = spans.iter().filter(inside).map(cut).collect();
    if named.is_empty() { vec![(base, bytes)] } else { named }
}

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

    /// Returns what a launch may touch now: its device's memory and its peers', and memory of the host that devices
    /// reach; beginning and length, in order.
    pub(super) fn reach(&self, context: usize, launched: &Launched) -> Vec<(u64, u64)> {
        let Some(found) = self.contexts.get(context) else { return Vec::new() };
        let mut devices = vec![found.device];
        devices.extend(found.peers.iter().filter_map(|peer| self.device_of(*peer)));
        let reaches = |kind: Kind, device: usize| match kind {
            Kind::Device | Kind::Variable => devices.contains(&device),
            Kind::Pool { pool } => {
                let access = self.pools.get(pool).and_then(|pool| pool.access.get(&found.device));
                devices.contains(&device) || access.is_some_and(|flags| *flags != 0)
            }
            Kind::Pinned { .. } | Kind::Registered { .. } | Kind::Managed => true,
        };
        let live = self
            .memory
            .iter()
            .filter(|(_, allocation)| reaches(allocation.kind, allocation.device))
            // What the caller registered may have been unmapped since.
            .filter(|(_, allocation)| allocation.range.is_mapped())
            .flat_map(|(base, allocation)| {
                let whole = (base as u64, allocation.range.bytes() as u64);
                let variable = matches!(allocation.kind, Kind::Variable);
                parts(whole, if variable { &[] } else { &launched.spans })
            });
        in_order(live.chain(launched.admitted.iter().copied()).collect())
    }

    /// Notes a kernel's mistake: in the report, on stderr unless the report goes somewhere, and for the next call that
    /// waits in its context.
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
            // There is memory, which the launch was not given.
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

    /// Tells a caller that waited of a kernel's mistake in a context: once, or ever again if mistakes stay.
    ///
    /// # Errors
    ///
    /// The mistake.
    pub fn tell_failure(&mut self, caller: &Caller, context: usize) -> Outcome<()> {
        let sticky = self.config.sticky;
        let Some(context) = self.contexts.get_mut(context) else { return Ok(()) };
        // An observer leaves it to a caller that works with the context.
        if !sticky && caller.passive {
            return Ok(());
        }
        let Some(failure) = context.failure.clone() else { return Ok(()) };
        if !sticky {
            context.failure = None;
        }
        Err(failure.tell())
    }

    /// As [`State::tell_failure`], for the context of a stream.
    ///
    /// # Errors
    ///
    /// The mistake.
    pub fn tell_failure_of_stream(&mut self, caller: &Caller, stream: usize) -> Outcome<()> {
        let context = self.streams.get(stream).map(|stream| stream.context);
        context.map_or(Ok(()), |context| self.tell_failure(caller, context))
    }
}

impl Machine {
    /// Tells of the kernel that a handle means to a stream.
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
        let mut state = self.lock();
        let context = state.stream(caller, stream)?.context;
        let function = state.resolve_function(caller, handle, Ok(context))?;
        let description = state.describe(caller, function)?;
        if description.context == context {
            Ok(description)
        } else {
            Err(Status::ERROR_INVALID_HANDLE)
        }
    }

    /// Launches a kernel in the order of a stream.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for what the device or the kernel cannot, or what a capture has against it; the kernel's mistake, if
    /// launches are waited for (`CUDA_LAUNCH_BLOCKING`).
    pub fn launch(&self, caller: &Caller, stream: usize, request: Request) -> Outcome<()> {
        check(&request)?;
        let kernel = request.kernel.kernel()?;
        let mut params = request.params;
        if params.len() < kernel.param_bytes as usize {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        params.truncate(kernel.param_bytes as usize);
        let mut state = self.lock();
        let module = request.kernel.module;
        let variables = Arc::clone(&state.module(caller, module)?.variables);
        let touches = state.touched(&params, &variables);
        let launch = Launch {
            program: Arc::clone(&request.kernel.image.program),
            kernel: request.kernel.number,
            grid: request.grid,
            block: request.block,
            dynamic_shared: request.shared,
            params,
            variables,
            checks: Checks {
                memory: state.config.check != Check::Off,
                shared: state.config.check == Check::Races,
            },
            limit: state.config.timeout,
        };
        let Request { admitted, spans, .. } = request;
        let launched = Launched { launch, module, function: caller.function, admitted, spans };
        let work = Work::Launch(Arc::new(launched));
        let submitted = state.submit(caller, stream, work, &touches)?;
        let Submitted::Queued(id) = submitted else { return Ok(()) };
        if !state.config.blocking {
            return Ok(());
        }
        drop(state);
        self.finish(caller, &[id])?;
        self.lock().tell_failure_of_stream(caller, stream)
    }

    /// Refuses a launch by name.
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
