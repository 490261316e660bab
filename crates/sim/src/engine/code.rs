//! Compiled kernels.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;

use cranelift_codegen::Context as CraneliftContext;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module as _, ModuleError, default_libcall_names};

use super::context::{Context, Record};
use super::graph::{is_barrier, suspends};
use super::hooks;
use super::inline::Flat;
use super::launch::Checks;
use super::lower::{self, Called, Callee, Callees, Hooks, Quiet, Site, Task};
use super::numbers::math;
use super::pointers::Addresses;
use super::shared::SharedLayout;
use crate::ptx::ast::{Module, Op, Space};

/// Address space for the code of a kernel; only the used part becomes memory.
const ADDRESS_SPACE: usize = 256 << 20;

/// A kernel with this many statements is not optimised: compiling it takes long enough.
const LARGE: usize = 1000;

/// Stack bytes of a call besides the frame: the return address and the caller's frame pointer.
const LINKAGE: usize = 16;

/// The compiled code of a kernel.
pub(super) struct Code {
    /// Owns the code; freed manually.
    module: ManuallyDrop<JITModule>,
    entry: *const u8,
    /// Whether threads wait for each other, so that they run one at a time.
    pub waits: bool,
    /// Whether lanes of a warp wait for each other.
    pub exchanges: bool,
    /// Whether blocks of the grid wait for each other.
    pub joins: bool,
    /// The sites that can fail or wait.
    pub sites: Vec<Site>,
    /// The size of a thread's record.
    pub record_bytes: usize,
    /// Whether it copies asynchronously.
    pub copies: bool,
    /// The granule in which shared memory is checked, in bytes.
    pub granule: usize,
    /// The largest stack frame of its functions.
    pub frame_bytes: usize,
}

// SAFETY: the code is only read once it is finished, and the module only freed.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl fmt::Debug for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Code").field("waits", &self.waits).finish_non_exhaustive()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let module = unsafe { ManuallyDrop::take(&mut self.module) };
        // SAFETY: every thread that runs the code holds it, so none runs it.
        unsafe { module.free_memory() };
    }
}

impl Code {
    /// The line of a site in the user's source, or 0.
    pub(super) fn line(&self, site: u32) -> u32 {
        self.sites[site as usize].source.map_or(0, |at| at.line)
    }

    /// Runs a block.
    ///
    /// # Safety
    ///
    /// 1. The code is one whose threads do not wait.
    /// 2. The context is that of a worker which was made for this code, and nothing else uses it meanwhile.
    pub(super) unsafe fn run_block(&self, context: *mut Context) -> i64 {
        // SAFETY: the code was compiled with this signature.
        let entry: unsafe extern "C" fn(*mut Context) -> i64 =
            unsafe { std::mem::transmute(self.entry) };
        // SAFETY: (1) and (2).
        unsafe { entry(context) }
    }

    /// Runs a thread until it waits or ends.
    ///
    /// # Safety
    ///
    /// 1. The code is one whose threads wait.
    /// 2. As for [`Code::run_block`].
    /// 3. The record is of [`Code::record_bytes`], and of a thread that has not ended.
    pub(super) unsafe fn run_thread(&self, context: *mut Context, record: *mut Record) -> i64 {
        // SAFETY: the code was compiled with this signature.
        let entry: unsafe extern "C" fn(*mut Context, *mut Record) -> i64 =
            unsafe { std::mem::transmute(self.entry) };
        // SAFETY: (1), (2) and (3).
        unsafe { entry(context, record) }
    }
}

/// Whether threads of a body wait for each other.
pub(super) fn waits(flat: &Flat) -> bool {
    flat.body.statements.iter().any(|statement| suspends(&statement.op))
}

/// Whether shared memory may be accessed in units smaller than a word.
fn touches_narrowly(flat: &Flat) -> bool {
    flat.body.statements.iter().any(|statement| match &statement.op {
        Op::Load { space: Space::Shared | Space::Generic, ty, to, .. } => {
            ty.bytes() as usize * to.len() < 4
        }
        Op::Store { space: Space::Shared | Space::Generic, ty, from, .. } => {
            ty.bytes() as usize * from.len() < 4
        }
        Op::Atomic { space: Space::Shared | Space::Generic, ty, .. } => ty.bytes() < 4,
        _ => false,
    })
}

/// Whether warps are synchronised, which orders the accesses of their lanes.
fn synchronises_warps(flat: &Flat) -> bool {
    flat.body.statements.iter().any(|statement| matches!(statement.op, Op::WarpSync { .. }))
}

/// Whether it copies asynchronously; then a place may be written although no thread writes there.
fn copies_async(flat: &Flat) -> bool {
    flat.body.statements.iter().any(|statement| matches!(statement.op, Op::CopyAsync { .. }))
}

fn new_module(optimise: bool) -> Result<JITModule, String> {
    let mut flags = settings::builder();
    let wanted = [
        ("opt_level", if optimise { "speed" } else { "none" }),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
    ];
    for (name, value) in wanted {
        flags.set(name, value).map_err(|error| error.to_string())?;
    }
    let isa = cranelift_native::builder()?
        .finish(settings::Flags::new(flags))
        .map_err(|error| error.to_string())?;
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    // All functions of a kernel must be within the two gigabytes that a call can reach.
    let room = ArenaMemoryProvider::new_with_size(ADDRESS_SPACE);
    builder.memory_provider(Box::new(room.map_err(|error| error.to_string())?));
    Ok(JITModule::new(builder))
}

/// Compiles a kernel with the functions that it calls.
pub(super) fn compile(
    module: &Module,
    kernel: &Flat,
    functions: &BTreeMap<usize, Flat>,
    shared: &SharedLayout,
    addresses: Addresses,
    checks: Checks,
) -> Result<Code, String> {
    let functions = &reached(kernel, functions);
    // Cranelift's optimiser delays sums until they are used. If that is after the next wait, all loaded
    // operands are kept until then. PTX is optimised already. The loop over threads is not, which matters for
    // small kernels.
    let optimise = !waits(kernel) && kernel.body.statements.len() < LARGE;
    let mut jit = new_module(optimise)?;
    let all = || functions.values().copied().chain([kernel]);
    let granule = if all().any(touches_narrowly) { 1 } else { 4 };
    let copies = all().any(copies_async);
    let plain_shared = granule == 4 && !copies && !all().any(synchronises_warps);
    let mut build = Build {
        module,
        functions,
        shared,
        addresses,
        checks,
        hooks: hooks::all(),
        plain_shared,
        quiet: None,
        ids: BTreeMap::new(),
        sites: Vec::new(),
        frame_bytes: 0,
    };
    let outcome = build.all(&mut jit, kernel);
    let (id, saved) = match outcome {
        Ok(found) => found,
        Err(error) => {
            // SAFETY: nothing of it runs.
            unsafe { jit.free_memory() };
            return Err(error.to_string());
        }
    };
    let entry = jit.get_finalized_function(id);
    Ok(Code {
        module: ManuallyDrop::new(jit),
        entry,
        waits: waits(kernel),
        exchanges: build.sites.iter().any(|site| suspends(&site.op) && !is_barrier(&site.op)),
        joins: build.sites.iter().any(|site| matches!(site.op, Op::GridBarrier)),
        sites: build.sites,
        record_bytes: lower::SAVED + 8 * saved,
        copies,
        granule,
        frame_bytes: build.frame_bytes,
    })
}

/// The functions that a kernel calls, directly or indirectly.
fn reached<'a>(
    kernel: &'a Flat,
    functions: &'a BTreeMap<usize, Flat>,
) -> BTreeMap<usize, &'a Flat> {
    let (mut reached, mut left) = (BTreeMap::new(), vec![kernel]);
    while let Some(next) = left.pop() {
        for statement in &next.body.statements {
            let Op::Call { function, .. } = &statement.op else { continue };
            if let Some(flat) = functions.get(function)
                && reached.insert(*function, flat).is_none()
            {
                left.push(flat);
            }
        }
    }
    reached
}

struct Build<'a> {
    module: &'a Module,
    functions: &'a BTreeMap<usize, &'a Flat>,
    shared: &'a SharedLayout,
    addresses: Addresses,
    checks: Checks,
    hooks: Hooks,
    plain_shared: bool,
    quiet: Option<(FuncId, FuncId)>,
    ids: BTreeMap<usize, FuncId>,
    sites: Vec<Site>,
    frame_bytes: usize,
}

impl Build<'_> {
    fn all(
        &mut self,
        jit: &mut JITModule,
        kernel: &Flat,
    ) -> Result<(FuncId, usize), Box<ModuleError>> {
        for (number, flat) in self.functions {
            let name = format!("function{number}");
            let signature = lower::signature(flat, false);
            let id = jit.declare_function(&name, Linkage::Local, &signature)?;
            self.ids.insert(*number, id);
        }
        let signature = lower::signature(kernel, waits(kernel));
        let id = jit.declare_function("kernel", Linkage::Export, &signature)?;
        let mut scratch = FunctionBuilderContext::new();
        if self.checks.memory || self.checks.shared {
            let look_up = quiet(jit, "look_up", self.hooks.look_up, &mut scratch)?;
            let share = quiet(jit, "share", self.hooks.share, &mut scratch)?;
            self.quiet = Some((look_up, share));
        }
        for (number, flat) in self.functions {
            self.one(jit, self.ids[number], flat, &mut scratch)?;
        }
        let saved = self.one(jit, id, kernel, &mut scratch)?;
        jit.finalize_definitions()?;
        Ok((id, saved))
    }

    fn one(
        &mut self,
        jit: &mut JITModule,
        id: FuncId,
        flat: &Flat,
        scratch: &mut FunctionBuilderContext,
    ) -> Result<usize, Box<ModuleError>> {
        let mut context: CraneliftContext = jit.make_context();
        context.func.signature = lower::signature(flat, waits(flat));
        let mut callees = Callees::new();
        for statement in &flat.body.statements {
            let Op::Call { function, .. } = &statement.op else { continue };
            if callees.contains_key(function) {
                continue;
            }
            let found = match self.ids.get(function) {
                Some(callee) => {
                    Some(Callee::Compiled(jit.declare_func_in_func(*callee, &mut context.func)))
                }
                None => host_function(&self.module.functions[*function].name),
            };
            if let Some(found) = found {
                callees.insert(*function, found);
            }
        }
        let task = Task {
            module: self.module,
            flat,
            functions: self.functions,
            shared: self.shared,
            addresses: self.addresses,
            checks: self.checks,
            hooks: self.hooks,
            plain_shared: self.plain_shared,
            waits: waits(flat),
        };
        let quiet = self.quiet.map(|(look_up, share)| Quiet {
            look_up: jit.declare_func_in_func(look_up, &mut context.func),
            share: jit.declare_func_in_func(share, &mut context.func),
        });
        let config = jit.target_config();
        let called = Called { callees: &callees, quiet };
        let saved =
            lower::lower(&task, &mut context.func, scratch, config, &called, &mut self.sites);
        jit.define_function(id, &mut context)?;
        let layout = context.compiled_code().and_then(|code| code.buffer.frame_layout());
        let frame = layout.map_or(0, |layout| layout.frame_to_fp_offset) as usize + LINKAGE;
        self.frame_bytes = self.frame_bytes.max(frame);
        jit.clear_context(&mut context);
        Ok(saved)
    }
}

/// A function that calls a hook and preserves all registers, so that code which rarely calls it need not save
/// them.
fn quiet(
    jit: &mut JITModule,
    name: &str,
    hook: usize,
    scratch: &mut FunctionBuilderContext,
) -> Result<FuncId, Box<ModuleError>> {
    let mut context = jit.make_context();
    context.func.signature = lower::quiet_signature();
    let id = jit.declare_function(name, Linkage::Local, &context.func.signature)?;
    lower::lower_quiet(&mut context.func, scratch, jit.target_config(), hook);
    jit.define_function(id, &mut context)?;
    jit.clear_context(&mut context);
    Ok(id)
}

/// The host function with this name.
pub(super) fn host_function(name: &str) -> Option<Callee> {
    match name {
        "vprintf" => Some(Callee::Print),
        "__assertfail" => Some(Callee::Assert),
        "malloc" => Some(Callee::Allocate),
        "free" => Some(Callee::Free),
        _ => math::find(name).map(Callee::Host),
    }
}
