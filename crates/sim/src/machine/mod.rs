//! The machine: devices, contexts, memory, streams, events, captures. It has no C types.
//!
//! One lock guards its state. It is not held while queued work moves bytes or host functions run.
#![forbid(unsafe_code)]

pub mod advice;
pub mod allocate;
pub mod arena;
pub mod array;
pub mod capture;
pub mod condition;
pub mod context;
pub mod copy;
pub mod device;
pub mod dot;
pub mod ending;
pub mod event;
pub mod export;
pub mod fault;
pub mod function;
pub mod graph;
pub mod graph_memory;
pub mod graph_run;
pub mod graph_update;
pub mod handle;
pub mod heap;
pub mod image;
pub mod import;
pub mod join;
pub mod kind;
pub mod launch;
pub mod library;
pub mod link;
pub mod memory;
pub mod module;
pub mod node;
pub mod node_words;
pub mod occupancy;
pub mod operation;
pub mod pool;
pub mod report;
pub mod run;
pub mod schedule;
pub mod share;
pub mod shared_event;
pub mod stream;
pub mod texture;
pub mod user_object;
pub mod virtual_memory;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use self::array::{Array, Mipmap};
use self::capture::{Capture, Mode};
use self::condition::Condition;
use self::context::Context;
use self::device::Device;
use self::event::Event;
use self::fault::Rule;
use self::function::Function;
use self::graph::Graph;
use self::graph_memory::Reserved;
use self::graph_run::Executable;
use self::handle::{Kind, Table};
use self::library::{Kernel, Library};
use self::link::Link;
use self::memory::Memory;
use self::module::Module;
use self::pool::{Place, Pool};
use self::report::{Fault, Report};
use self::schedule::Schedule;
use self::shared_event::Counters;
use self::stream::Stream;
use self::texture::{Surface, Texture};
use self::user_object::UserObject;
use self::virtual_memory::Physical;
use crate::config::Config;
use crate::status::Status;

/// The calling thread and function.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The thread's number.
    pub thread: u64,
    /// The thread's capture mode.
    pub mode: Mode,
    /// Whether the thread's queries leave queued work alone.
    pub passive: bool,
    /// The driver function.
    pub function: &'static str,
}

impl Caller {
    /// Returns a caller for the machine's own threads.
    #[must_use]
    pub fn internal(function: &'static str) -> Self {
        Self { thread: 0, mode: Mode::Relaxed, passive: false, function }
    }
}

/// A machine. Clones refer to the same machine.
#[derive(Clone, Debug)]
pub struct Machine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when an operation is complete.
    changed: Condvar,
    /// The number of calls, for the timer to detect idle time.
    calls: AtomicU64,
    /// The number of operations that are moving bytes.
    moving: AtomicU64,
    /// The number of host functions that are running.
    calling: AtomicU64,
    /// Whether the process is ending: no more host functions are started.
    ending: AtomicBool,
    callbacks: OnceLock<Sender<run::Job>>,
}

/// The state of the machine.
#[derive(Debug)]
pub struct State {
    /// Its settings.
    pub config: Config,
    /// Event times count from here.
    pub started: Instant,
    /// The devices.
    pub devices: Vec<Device>,
    /// The contexts.
    pub contexts: Table<Context>,
    /// The devices of destroyed contexts: one may still be current in a thread.
    pub devices_of_gone: BTreeMap<usize, usize>,
    /// The streams.
    pub streams: Table<Stream>,
    /// The events.
    pub events: Table<Event>,
    /// The pools.
    pub pools: Table<Pool>,
    /// The default and the current pool of each place outside of devices, once asked for.
    pub default_pools: BTreeMap<Place, (usize, usize)>,
    /// What the program said about managed memory, by the address of the allocation.
    pub advice: BTreeMap<usize, Vec<advice::Advised>>,
    /// The graphs.
    pub graphs: Table<Graph>,
    /// The graph of each node.
    pub nodes: Table<usize>,
    /// The executable graphs.
    pub executables: Table<Executable>,
    /// The conditions of graphs, by handle.
    pub conditions: BTreeMap<usize, Arc<Condition>>,
    /// The memory of graphs, by address.
    pub reserved: BTreeMap<usize, Arc<Reserved>>,
    /// The memory of graphs that is allocated, as far as queued work has run.
    pub awake: BTreeSet<usize>,
    /// The memory of graphs that counts as used.
    pub counted: BTreeSet<usize>,
    /// The modules.
    pub modules: Table<Module>,
    /// The functions of modules.
    pub functions: Table<Function>,
    /// The libraries.
    pub libraries: Table<Library>,
    /// The kernels of libraries.
    pub kernels: Table<Kernel>,
    /// The links in progress.
    pub links: Table<Link>,
    /// The user objects.
    pub user_objects: Table<UserObject>,
    /// The allocations.
    pub memory: Memory,
    /// The arrays, with the levels of mipmaps.
    pub arrays: Table<Array>,
    /// The arrays with several levels.
    pub mipmaps: Table<Mipmap>,
    /// The texture objects.
    pub textures: Table<Texture>,
    /// The surface objects.
    pub surfaces: Table<Surface>,
    /// Physical memory that is mapped by itself.
    pub physical: Table<Physical>,
    /// The counters of events that other processes may open.
    pub counters: Counters,
    /// Addresses that the program reserved: starts and sizes.
    pub reservations: BTreeMap<usize, usize>,
    /// The queued work.
    pub schedule: Schedule,
    /// The active captures.
    pub captures: BTreeMap<u64, Capture>,
    /// The number of captures begun so far.
    pub captures_made: u64,
    /// The program's errors.
    pub report: Report,
    /// The kinds of reasons already printed on stderr.
    pub explained: BTreeSet<image::Kind>,
}

impl Machine {
    /// Makes a machine with these settings.
    ///
    /// # Errors
    ///
    /// The kernel's error, if it refuses the address space.
    pub fn new(config: Config) -> nix::Result<Self> {
        let mut state = State {
            started: Instant::now(),
            devices: Vec::new(),
            contexts: Table::new(Kind::Context),
            devices_of_gone: BTreeMap::new(),
            streams: Table::new(Kind::Stream),
            events: Table::new(Kind::Event),
            pools: Table::new(Kind::Pool),
            default_pools: BTreeMap::new(),
            advice: BTreeMap::new(),
            graphs: Table::new(Kind::Graph),
            nodes: Table::new(Kind::Node),
            executables: Table::new(Kind::Executable),
            conditions: BTreeMap::new(),
            reserved: BTreeMap::new(),
            awake: BTreeSet::new(),
            counted: BTreeSet::new(),
            modules: Table::new(Kind::Module),
            functions: Table::new(Kind::Function),
            libraries: Table::new(Kind::Library),
            kernels: Table::new(Kind::Kernel),
            links: Table::new(Kind::Link),
            user_objects: Table::new(Kind::UserObject),
            memory: Memory::new(&config)?,
            arrays: Table::new(Kind::Array),
            mipmaps: Table::new(Kind::Mipmap),
            textures: Table::new(Kind::Texture),
            surfaces: Table::new(Kind::Surface),
            physical: Table::new(Kind::Physical),
            counters: Counters::default(),
            reservations: BTreeMap::new(),
            schedule: Schedule::new(config.seed),
            captures: BTreeMap::new(),
            captures_made: 0,
            report: Report::default(),
            explained: BTreeSet::new(),
            config,
        };
        for device in 0..state.config.devices {
            let pool = state.pools.add(Pool::new(Place::Device, device, 0));
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

    /// Locks the state. Do not call other locking functions of the machine while holding it.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // No panic leaves a change half done. Even if one did, driver calls must still return.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call.
    pub fn note_call(&self) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
    }
}

impl State {
    /// Applies the rules that concern the whole machine.
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

    /// Adds an error to the report and returns the status for the caller.
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

    /// Returns the numbers of live objects as JSON.
    #[must_use]
    pub fn live(&self) -> Value {
        let created = |stream: &Stream| stream.role == stream::Role::Created;
        json!({
            "allocations": self.memory.iter().count(),
            "bytes": self.memory.iter().map(|(_, allocation)| allocation.range.bytes()).sum::<usize>(),
            "contexts": self.contexts.iter().filter(|(_, context)| context.active).count(),
            "streams": self.streams.iter().filter(|(_, stream)| created(stream)).count(),
            "events": self.events.len(),
            "pools": self.pools.len() - self.devices.len() - self.default_pools.len(),
            "graphs": self.graphs.len(),
            "executables": self.executables.len(),
            "modules": self.modules.len(),
            "libraries": self.libraries.len(),
            "links": self.links.len(),
            "arrays": self.arrays.len(),
            "textures": self.textures.len(),
            "surfaces": self.surfaces.len(),
            "physical": self.physical.len(),
            "reservations": self.reservations.len(),
            "operations": self.schedule.iter().count(),
        })
    }
}
