//! Translates a flat body to Cranelift IR.
//!
//! Registers are integers of their width; floating-point instructions use the same bits. If a kernel's
//! threads never wait for each other, it becomes a function that runs a whole block, thread after thread.
//! Otherwise it becomes a function that runs one thread from where it was suspended to its next wait, and
//! saves its live values in its record.
#![forbid(unsafe_code)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "constants of a program are taken by their bits, and tables of a program are short"
)]

mod bits;
mod call;
mod control;
mod convert;
mod exit;
mod float;
mod integer;
mod kinds;
mod memory;
mod quiet;
mod registers;
mod value;
mod wait;

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{self, AbiParam, Block, InstBuilder, MemFlagsData, Signature, Value};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use self::exit::Exit;
pub(super) use self::quiet::{lower_quiet, quiet_signature};
use self::registers::{Home, Place};
use super::context::{answer, at};
use super::graph::{Graph, Live, suspends};
use super::inline::Flat;
use super::launch::Checks;
use super::pointers::Addresses;
use super::shared::SharedLayout;
use crate::ptx::ast::{Module, Op, Reg, Source, Space, Statement, Type};

/// A site in the code that can fail or wait.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The line of the PTX text.
    pub line: u32,
    /// The line of the user's source.
    pub source: Option<Source>,
    /// The instruction.
    pub op: Op,
    /// The memory that it accesses.
    pub space: Space,
    /// The size of the access.
    pub bytes: u32,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is atomic.
    pub atomic: bool,
    /// Whether the compiler may have moved it before the condition that guards it.
    pub speculative: bool,
}

/// Addresses of the functions that code calls in unusual cases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hooks {
    /// `(context, thread, site, address) -> 0 if the access is valid`: looks memory up.
    pub look_up: usize,
    /// `(context, thread, site, address)`: the access is invalid.
    pub refuse: usize,
    /// `(context, thread, site, offset) -> 0 if valid`: records an access to shared memory.
    pub share: usize,
    /// `(context, thread, site)`: the launch must end.
    pub stopped: usize,
    /// `(context, thread, site)`: `trap`.
    pub trap: usize,
    /// `(context, thread, site, address)`: no function fits an indirect call.
    pub wild_call: usize,
    /// `(context, thread, site)`: calls are nested too deep.
    pub overflow: usize,
    /// `(context, text, arguments) -> characters`: `vprintf`.
    pub print: usize,
    /// `(context, thread, site, message, file, line, function)`: `__assertfail`.
    pub assert: usize,
    /// `(context, bytes) -> address`: `malloc`.
    pub allocate: usize,
    /// `(context, thread, site, address) -> 0 if valid`: `free`.
    pub free: usize,
    /// `(context, thread, site, number, threads)`: `bar.arrive`.
    pub arrive: usize,
    /// `(context, thread, site, to, from, taken) -> 0 if valid`: `cp.async`.
    pub copy: usize,
    /// `(context, thread)`: `cp.async.commit_group`.
    pub commit_copies: usize,
    /// `(context, thread, groups left)`: `cp.async.wait_group`; -1: `cp.async.wait_all`.
    pub wait_copies: usize,
    /// `() -> nanoseconds`.
    pub clock: usize,
}

/// A function of the module in compiled code.
#[derive(Clone, Copy, Debug)]
pub(super) enum Callee {
    /// A recursive function, with the size of its frame and the offset of its results.
    Compiled(ir::FuncRef),
    /// A host function.
    Host(&'static super::numbers::Extern),
    /// `vprintf`.
    Print,
    /// `__assertfail`.
    Assert,
    /// `malloc`.
    Allocate,
    /// `free`.
    Free,
}

/// The input of lowering a function.
pub(super) struct Task<'a> {
    /// The module.
    pub module: &'a Module,
    /// The function.
    pub flat: &'a Flat,
    /// The recursive functions.
    pub functions: &'a BTreeMap<usize, &'a Flat>,
    /// The offsets of shared variables.
    pub shared: &'a SharedLayout,
    /// The addresses of functions.
    pub addresses: Addresses,
    /// The enabled checks.
    pub checks: Checks,
    /// The hooks.
    pub hooks: Hooks,
    /// Whether compiled code may itself record accesses to whole words of shared memory: no smaller unit is
    /// ever accessed, and only barriers order accesses.
    pub plain_shared: bool,
    /// Whether the kernel's threads wait for each other.
    pub waits: bool,
}

/// The callees of a body.
pub(super) type Callees = BTreeMap<usize, Callee>;

/// Hooks that preserve all registers. Their result is in the context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    /// [`Hooks::look_up`].
    pub look_up: ir::FuncRef,
    /// [`Hooks::share`].
    pub share: ir::FuncRef,
}

/// The functions that a function calls.
pub(super) struct Called<'a> {
    /// By their index in the module.
    pub callees: &'a Callees,
    /// If any check is enabled.
    pub quiet: Option<Quiet>,
}

/// The offset of saved registers in a record.
pub(super) const SAVED: usize = size_of::<super::context::Record>();

pub(super) struct Lower<'a, 'b> {
    task: &'a Task<'a>,
    builder: FunctionBuilder<'b>,
    graph: Graph,
    called: &'a Called<'a>,
    sites: &'a mut Vec<Site>,
    /// A block for each span.
    blocks: Vec<Block>,
    /// Where registers are kept.
    home: Home,
    carry: Variable,
    /// The Cranelift type of each register.
    holders: Vec<ir::Type>,
    /// Registers that are only selected between.
    only_chosen: BTreeSet<Reg>,
    /// The offset in the record of each register that outlives a wait.
    slots: BTreeMap<Reg, i32>,
    /// The offset of the carry flag there, if it is used.
    carry_slot: Option<i32>,
    /// The live registers of each span, and those live before the next wait, if registers are values.
    live: Live,
    needed_soon: Live,
    /// The resume point of each wait, and those still to be written.
    entries: Vec<Block>,
    resumes: Vec<Block>,
    context: Value,
    /// The record of the thread, if threads wait.
    record: Option<Value>,
    /// The thread's number in its block. If it changes, it is computed from the axes.
    linear: Option<Value>,
    thread: [Here; 3],
    /// The thread's local memory, and the frame of this function in it.
    local: Value,
    frame: Value,
    /// The exit for threads that end.
    ended: Exit,
    /// The exit for launches that must end.
    stopped: Exit,
    /// Blocks that only jump to another. They are written last.
    passages: Vec<(Block, Block)>,
    statement: usize,
    /// The values that the statement stores, if races are checked: hooks compare them with what is there.
    stored: Vec<Value>,
    /// Fields of the context that code for a single thread reads, each once.
    fields: BTreeMap<i32, (Variable, ir::Type)>,
    /// The entry block, which is written last.
    before: Block,
}

/// A value that is fixed, or changes from thread to thread.
#[derive(Clone, Copy)]
enum Here {
    Fixed(Value),
    Changing(Variable),
    /// In the context.
    Stored(i32),
}

/// The engine's own memory: always accessible and aligned.
pub(super) const OURS: MemFlagsData = MemFlagsData::trusted();
/// The engine's own memory that does not change while the code runs.
const CONSTANT: MemFlagsData = MemFlagsData::trusted().with_readonly().with_can_move();

/// The Cranelift type that holds a register.
pub(super) const fn holder(ty: Type) -> ir::Type {
    match ty.bytes() {
        1 => match ty {
            Type::Pred => I8,
            _ => I16,
        },
        2 => I16,
        4 => I32,
        _ => I64,
    }
}

/// The signature of a kernel that runs a block, of one that runs a thread, or of a function.
pub(super) fn signature(flat: &Flat, waits: bool) -> Signature {
    let mut signature = Signature::new(CallConv::SystemV);
    let count = match (flat.entry, waits) {
        // Context.
        (true, false) => 1,
        // Context, record.
        (true, true) => 2,
        // Context, thread, the thread's local memory, frame.
        (false, _) => 4,
    };
    signature.params = vec![AbiParam::new(I64); count];
    signature.returns = vec![AbiParam::new(I64)];
    signature
}

/// Writes a function's code. Returns how many registers are saved at waits.
pub(super) fn lower(
    task: &Task<'_>,
    function: &mut ir::Function,
    scratch: &mut FunctionBuilderContext,
    config: TargetFrontendConfig,
    called: &Called<'_>,
    sites: &mut Vec<Site>,
) -> usize {
    let graph = Graph::new(&task.flat.body);
    let waits = task.flat.entry && task.waits;
    let held = registers::held(&graph, &task.flat.body, waits);
    let mut builder = FunctionBuilder::new(function, scratch);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let arguments = builder.block_params(entry).to_vec();
    let blocks = graph.spans.iter().map(|_| builder.create_block()).collect();
    let holders = kinds::holders(&task.flat.body);
    let (home, [live, needed_soon]) = match held {
        Some(live) => {
            let places = Place::all(&mut builder, &graph, &task.flat.body, &holders);
            (Home::Values(places), live)
        }
        None if waits => (Home::Record, Default::default()),
        None => (registers::on_the_stack(&mut builder, holders.len()), Default::default()),
    };
    let carry = builder.declare_var(I8);
    let ended = builder.create_block();
    let stopped = builder.create_block();
    builder.set_cold_block(stopped);
    let zero = builder.ins().iconst(I64, 0);
    let mut lower = Lower {
        context: arguments[0],
        record: None,
        linear: None,
        thread: [Here::Fixed(zero); 3],
        local: zero,
        frame: zero,
        task,
        builder,
        graph,
        called,
        sites,
        blocks,
        home,
        carry,
        holders,
        only_chosen: kinds::only_chosen(&task.flat.body),
        slots: BTreeMap::new(),
        carry_slot: None,
        live,
        needed_soon,
        entries: Vec::new(),
        resumes: Vec::new(),
        ended: Exit::new(ended),
        stopped: Exit::new(stopped),
        passages: Vec::new(),
        statement: 0,
        stored: Vec::new(),
        fields: BTreeMap::new(),
        before: entry,
    };
    match (task.flat.entry, waits) {
        (true, false) => lower.begin_block(),
        (true, true) => lower.begin_thread(arguments[1]),
        (false, _) => lower.begin_function(&arguments),
    }
    lower.body();
    lower.write_before();
    lower.write_passages();
    lower.builder.switch_to_block(stopped);
    lower.answer(answer::STOP);
    let saved = lower.saved();
    lower.builder.seal_all_blocks();
    lower.builder.finalize(config);
    saved
}

impl Lower<'_, '_> {
    fn body(&mut self) {
        for span in 0..self.graph.spans.len() {
            let block = self.blocks[span];
            self.builder.switch_to_block(block);
            let (start, end) = (self.graph.spans[span].start, self.graph.spans[span].end);
            let mut open = true;
            for index in start..end {
                self.statement = index;
                let statement = &self.task.flat.body.statements[index];
                open = self.guarded(statement, span);
            }
            if open {
                let next = self.next_of(span);
                self.builder.ins().jump(next, &[]);
            }
        }
    }

    /// Lowers a statement. Returns whether the current block continues.
    fn guarded(&mut self, statement: &Statement, span: usize) -> bool {
        let Some(guard) = &statement.guard else { return self.op(&statement.op, span) };
        let holds = self.predicate(guard);
        let doing = self.builder.create_block();
        let last = self.statement + 1 == self.graph.spans[span].end;
        let next = match self.blocks.get(span + 1) {
            Some(next) if last => *next,
            None if last => self.ended(),
            _ => self.builder.create_block(),
        };
        self.builder.ins().brif(holds, doing, &[], next, &[]);
        self.builder.switch_to_block(doing);
        if self.op(&statement.op, span) {
            self.builder.ins().jump(next, &[]);
        }
        if last {
            return false;
        }
        self.builder.switch_to_block(next);
        true
    }

    /// Lowers an instruction. Returns whether the current block continues.
    fn op(&mut self, op: &Op, span: usize) -> bool {
        match op {
            Op::Branch { .. } | Op::BranchTable { .. } | Op::Return | Op::Exit | Op::Trap => {
                self.leave(op);
                return false;
            }
            op if suspends(op) => {
                self.wait(op, span);
                return false;
            }
            Op::Call { function, returns, arguments } => self.call(*function, returns, arguments),
            Op::CallIndirect { address, .. } => self.call_none(address),
            Op::Load { .. } | Op::Store { .. } | Op::Atomic { .. } => self.memory(op),
            Op::CopyAsync { .. } => self.copy_async(op),
            Op::CommitCopies | Op::WaitCopies { .. } => self.copies(op),
            Op::Move { ty, to, from } => {
                let value = self.value(from, *ty);
                self.write(*to, value);
            }
            Op::Pack { .. } | Op::Unpack { .. } => self.pack(op),
            Op::ToGeneric { .. } | Op::FromGeneric { .. } | Op::IsSpace { .. } => self.space(op),
            Op::Convert { .. } | Op::ConvertPair { .. } => self.convert(op),
            Op::Unary { ty, .. } | Op::Binary { ty, .. } | Op::Ternary { ty, .. }
                if ty.is_float() =>
            {
                self.float(op);
            }
            Op::Unary { .. } | Op::Binary { .. } | Op::Ternary { .. } => self.integer(op),
            Op::Carry { .. } | Op::MadCarry { .. } => self.carry(op),
            Op::ExtractBits { .. }
            | Op::InsertBits { .. }
            | Op::FindBit { .. }
            | Op::Mask { .. }
            | Op::Permute { .. }
            | Op::FunnelShift { .. }
            | Op::Logic3 { .. }
            | Op::Dot4 { .. } => self.bits(op),
            Op::SetPredicate { .. }
            | Op::SetNumber { .. }
            | Op::Select { .. }
            | Op::TestFloat { .. } => self.compare(op),
            Op::Barrier { id, threads, .. } => self.arrive(id, threads.as_ref()),
            Op::Fence => {
                self.builder.ins().fence();
            }
            Op::Nothing
            | Op::GridBarrier
            | Op::WarpSync { .. }
            | Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::ActiveMask { .. }
            | Op::LoadMatrix { .. }
            | Op::Multiply { .. } => {}
        }
        true
    }

    /// Adds a site.
    fn site(&mut self, op: &Op, space: Space, bytes: u32, writes: bool, atomic: bool) -> i64 {
        let statement = &self.task.flat.body.statements[self.statement];
        let chosen = |to: &Option<Reg>| to.is_none_or(|to| self.only_chosen.contains(&to));
        let speculative = matches!(op, Op::Load { to, .. } if to.iter().all(chosen));
        self.sites.push(Site {
            line: statement.line,
            source: statement.source,
            op: op.clone(),
            space,
            bytes,
            writes,
            atomic,
            speculative,
        });
        self.sites.len() as i64 - 1
    }

    fn here(&mut self, here: Here) -> Value {
        match here {
            Here::Fixed(value) => value,
            Here::Changing(variable) => self.builder.use_var(variable),
            Here::Stored(offset) => self.builder.ins().load(I32, OURS, self.context, offset),
        }
    }

    /// The thread's number in its block.
    fn linear(&mut self) -> Value {
        if let Some(linear) = self.linear {
            return linear;
        }
        let [x, y, z] = self.thread;
        let [x, y, z] = [self.here(x), self.here(y), self.here(z)];
        let width = self.field(I32, at::THREADS);
        let height = self.field(I32, at::THREADS + 4);
        let rows = self.builder.ins().imul(z, height);
        let rows = self.builder.ins().iadd(rows, y);
        let linear = self.builder.ins().imul(rows, width);
        let linear = self.builder.ins().iadd(linear, x);
        self.builder.ins().uextend(I64, linear)
    }

    fn number(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(I64, value)
    }

    /// A field of the context that does not change while the code runs.
    fn field(&mut self, ty: ir::Type, offset: i32) -> Value {
        if self.record.is_some() {
            let builder = &mut self.builder;
            let (variable, _) =
                *self.fields.entry(offset).or_insert_with(|| (builder.declare_var(ty), ty));
            return self.builder.use_var(variable);
        }
        self.builder.ins().load(ty, CONSTANT, self.context, offset)
    }

    /// Calls a host function by its address.
    fn host(
        &mut self,
        address: usize,
        arguments: &[Value],
        result: Option<ir::Type>,
    ) -> Option<Value> {
        let mut signature = Signature::new(CallConv::SystemV);
        for argument in arguments {
            let ty = self.builder.func.dfg.value_type(*argument);
            let param = AbiParam::new(ty);
            signature.params.push(if ty.is_int() && ty.bits() < 32 { param.uext() } else { param });
        }
        signature.returns.extend(result.map(AbiParam::new));
        let signature = self.builder.import_signature(signature);
        let callee = self.number(address as i64);
        let call = self.builder.ins().call_indirect(signature, callee, arguments);
        self.builder.inst_results(call).first().copied()
    }

    /// Calls a function of `numbers` by its name. Operands and result are integers of their types' widths.
    fn named(&mut self, name: &str, arguments: &[Value]) -> Value {
        let Some(found) = super::numbers::find(name) else {
            // Every name used is in the table: a test looks each of them up.
            debug_assert!(false, "no function {name}");
            return arguments[0];
        };
        self.call_extern(found, arguments)
    }

    fn call_extern(&mut self, found: &super::numbers::Extern, arguments: &[Value]) -> Value {
        let mut signature = Signature::new(CallConv::SystemV);
        let mut passed = Vec::with_capacity(arguments.len());
        for (ty, argument) in found.params.iter().zip(arguments) {
            let narrow = ty.bytes() < 4;
            let param = AbiParam::new(match ty {
                Type::F32 => ir::types::F32,
                Type::F64 => ir::types::F64,
                _ if narrow => I32,
                _ => holder(*ty),
            });
            signature.params.push(param);
            passed.push(match ty {
                Type::F32 | Type::F64 => self.as_float(*argument, *ty),
                _ if narrow && ty.is_signed() => self.builder.ins().sextend(I32, *argument),
                _ if narrow => self.builder.ins().uextend(I32, *argument),
                _ => *argument,
            });
        }
        let result = match found.result {
            Type::F32 => ir::types::F32,
            Type::F64 => ir::types::F64,
            ty => holder(ty),
        };
        signature.returns.push(AbiParam::new(result));
        let signature = self.builder.import_signature(signature);
        let callee = self.number(found.address as i64);
        let call = self.builder.ins().call_indirect(signature, callee, &passed);
        let value = self.builder.inst_results(call)[0];
        self.as_bits(value)
    }

    /// Returns from the code with a result.
    fn answer(&mut self, answer: i64) {
        let answer = self.number(answer);
        self.builder.ins().return_(&[answer]);
    }

    /// Ends the launch.
    fn stop(&mut self) {
        let stopped = self.stopped();
        self.builder.ins().jump(stopped, &[]);
    }

    fn stop_flag(&mut self) -> Value {
        let flag = self.field(I64, at::STOP);
        // Atomic, so that it is loaded each time.
        self.builder.ins().atomic_load(I32, OURS, flag)
    }
}
