//! The machine: devices, contexts, memory, streams, events, captures. It contains no C types.
//!
//! One lock guards its state; it is free while queued work moves bytes and while host functions run.
#![forbid(unsafe_code)]

pub mod allocate;
pub mod arena;
pub mod capture;
pub mod context;
pub mod copy;
pub mod device;
pub mod ending;
pub mod event;
pub mod fault;
pub mod function;
pub mod graph;
pub mod handle;
pub mod image;
pub mod launch;
pub mod library;
pub mod link;
pub mod memory;
pub mod module;
pub mod occupancy;
pub mod operation;
pub mod pool;
pub mod report;
pub mod run;
pub mod schedule;
pub mod stream;
pub mod user_object;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use self::capture::{Capture, Mode};
use self::context::Context;
use self::device::Device;
use self::event::Event;
use self::fault::Rule;
use self::function::Function;
use self::graph::{Executable, Graph};
use self::handle::{Kind, Table};
use self::library::{Kernel, Library};
use self::link::Link;
use self::memory::Memory;
use self::module::Module;
use self::pool::Pool;
use self::report::{Fault, Report};
use self::schedule::Schedule;
use self::stream::Stream;
use self::user_object::UserObject;
use crate::config::Config;
use crate::status::Status;

/// Who calls, and how.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// A number for the thread.
    pub thread: u64,
    /// What the thread says of captures.
    pub mode: Mode,
    /// Whether the thread's questions leave queued work alone.
    pub passive: bool,
    /// The function that was called.
    pub function: &'static str,
}

impl Caller {
    /// Returns a caller for threads of the machine's own.
    #[must_use]
    pub fn internal(function: &'static str) -> Self {
        Self { thread: 0, mode: Mode::Relaxed, passive: false, function }
    }
}

/// A machine. Clones are the same machine.
#[derive(Clone, Debug)]
pub struct Machine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told when an operation is complete.
    changed: Condvar,
    /// Calls so far; the timer looks whether it stands still.
    calls: AtomicU64,
    /// Operations whose bytes move at the moment.
    moving: AtomicU64,
    /// Functions of the caller's that run at the moment.
    calling: AtomicU64,
    /// The process ends: no function of the caller's is begun any more.
    ending: AtomicBool,
    callbacks: OnceLock<Sender<run::Job>>,
}

/// All that the machine knows.
#[derive(Debug)]
pub struct State {
    /// Its shape.
    pub config: Config,
    /// What is counted from for the times of events.
    pub started: Instant,
    /// The devices.
    pub devices: Vec<Device>,
    /// The contexts.
    pub contexts: Table<Context>,
    /// The devices of contexts that are gone; a thread may still have one as its current.
    pub devices_of_gone: BTreeMap<usize, usize>,
    /// The streams.
    pub streams: Table<Stream>,
    /// The events.
    pub events: Table<Event>,
    /// The pools.
    pub pools: Table<Pool>,
    /// The graphs.
    pub graphs: Table<Graph>,
    /// The graphs that can be launched.
    pub executables: Table<Executable>,
    /// The modules.
    pub modules: Table<Module>,
    /// The functions of modules.
    pub functions: Table<Function>,
    /// The libraries.
    pub libraries: Table<Library>,
    /// The kernels of libraries.
    pub kernels: Table<Kernel>,
    /// The links that were begun.
    pub links: Table<Link>,
    /// The caller's objects that graphs may keep.
    pub user_objects: Table<UserObject>,
    /// The allocations.
    pub memory: Memory,
    /// What is queued.
    pub schedule: Schedule,
    /// The captures that were begun and not ended.
    pub captures: BTreeMap<u64, Capture>,
    /// How many captures were ever begun.
    pub captures_made: u64,
    /// What went wrong.
    pub report: Report,
    /// The kinds of reasons that were printed on stderr.
    pub explained: BTreeSet<image::Kind>,
}

impl Machine {
    /// Makes a machine of this shape.
    ///
    /// # Errors
    ///
    /// What the kernel says to so much address space.
    pub fn new(config: Config) -> nix::Result<Self> {
        let mut state = State {
            started: Instant::now(),
            devices: Vec::new(),
            contexts: Table::new(Kind::Context),
            devices_of_gone: BTreeMap::new(),
            streams: Table::new(Kind::Stream),
            events: Table::new(Kind::Event),
            pools: Table::new(Kind::Pool),
            graphs: Table::new(Kind::Graph),
            executables: Table::new(Kind::Executable),
            modules: Table::new(Kind::Module),
            functions: Table::new(Kind::Function),
            libraries: Table::new(Kind::Library),
            kernels: Table::new(Kind::Kernel),
            links: Table::new(Kind::Link),
            user_objects: Table::new(Kind::UserObject),
            memory: Memory::new(&config)?,
            schedule: Schedule::new(config.seed),
            captures: BTreeMap::new(),
            captures_made: 0,
            report: Report::default(),
            explained: BTreeSet::new(),
            config,
        };
        for device in 0..state.config.devices {
            let pool = state.pools.add(Pool::new(device, 0));
            state.devices.push(Device { default_pool: pool, pool, ..Device::default() });
        }
        let rules = state.config.faults.clone();
        state.apply(&rules);
        Ok(Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Condvar::new(),
                calls: AtomicU64::new(0),
                moving: AtomicU64::new(0),
                calling: AtomicU64::new(0),
                ending: AtomicBool::new(false),
                callbacks: OnceLock::new(),
            }),
        })
    }

    /// Looks at or changes the state. No function of the machine that locks may be called meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics half-way through a change; and if it did, a driver call still has to be answered.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a call came.
    pub fn note_call(&self) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
    }
}

impl State {
    /// Takes rules over that concern the machine as a whole.
    pub fn apply(&mut self, rules: &[Rule]) {
        let caller = Caller::internal("GPULEND_SIM_FAULTS");
        let limit = rules
            .iter()
            .filter_map(|rule| if let Rule::Memory(bytes) = rule { Some(*bytes) } else { None })
            .min();
        self.memory.set_limit(limit.unwrap_or(self.config.memory).min(self.config.memory));
        for device in 0..self.devices.len() {
            if rules.contains(&Rule::Lost(device)) {
                self.lose(&caller, device);
            } else {
                self.devices[device].lost = false;
            }
        }
    }

    /// Enters a mistake in the report and returns what the caller is answered.
    pub fn fault(&mut self, caller: &Caller, status: Status, what: &str, address: usize) -> Status {
        // A handle is not an address, so no allocation is near it.
        let nearest = self.memory.nearest(address).filter(|_| address < handle::FIRST);
        self.report.add(Fault {
            function: caller.function,
            what: what.to_owned(),
            address,
            nearest,
            status,
        });
        status
    }

    /// Returns the live objects, for JSON.
    #[must_use]
    pub fn live(&self) -> Value {
        let created = |stream: &Stream| stream.role == stream::Role::Created;
        json!({
            "allocations": self.memory.iter().count(),
            "bytes": self.memory.iter().map(|(_, allocation)| allocation.range.bytes()).sum::<usize>(),
            "contexts": self.contexts.iter().filter(|(_, context)| context.active).count(),
            "streams": self.streams.iter().filter(|(_, stream)| created(stream)).count(),
            "events": self.events.len(),
            "pools": self.pools.len() - self.devices.len(),
            "graphs": self.graphs.len(),
            "executables": self.executables.len(),
            "modules": self.modules.len(),
            "libraries": self.libraries.len(),
            "links": self.links.len(),
            "operations": self.schedule.iter().count(),
        })
    }
}
