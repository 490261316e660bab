//! Entry, branches and exit of threads.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, JumpTableData, Value};

use super::{Here, Lower, OURS, answer, at};
use crate::ptx::ast::{Label, Op, Space, Statement, Type};

impl Lower<'_, '_> {
    /// Begins code that runs all threads of a block, one after another.
    pub(super) fn begin_block(&mut self) {
        self.local = self.field(I64, at::LOCAL);
        self.frame = self.local;
        let first = self.builder.declare_var(I32);
        let zero = self.builder.ins().iconst(I32, 0);
        self.builder.def_var(first, zero);
        for offset in [at::ROW, at::ROW + 4] {
            self.builder.ins().store(OURS, zero, self.context, offset);
        }
        self.thread = [Here::Changing(first), Here::Stored(at::ROW), Here::Stored(at::ROW + 4)];
        let start = self.blocks[0];
        self.builder.ins().jump(start, &[]);
        // The next thread: the first axis advances first.
        let ended = self.ended();
        self.builder.switch_to_block(ended);
        let done = self.builder.create_block();
        let value = self.builder.use_var(first);
        let next = self.builder.ins().iadd_imm_u(value, 1);
        self.builder.def_var(first, next);
        self.wrap(next, 0, start);
        let zero = self.builder.ins().iconst(I32, 0);
        self.builder.def_var(first, zero);
        for axis in [1, 2] {
            let place = at::ROW + 4 * (axis - 1);
            let value = self.builder.ins().load(I32, OURS, self.context, place);
            let next = self.builder.ins().iadd_imm_u(value, 1);
            self.builder.ins().store(OURS, next, self.context, place);
            self.wrap(next, axis, start);
            let zero = self.builder.ins().iconst(I32, 0);
            self.builder.ins().store(OURS, zero, self.context, place);
        }
        self.builder.ins().jump(done, &[]);
        self.builder.switch_to_block(done);
        self.answer(answer::DONE);
    }

    /// Continues with the next thread, unless the axis is at its end.
    fn wrap(&mut self, next: Value, axis: i32, start: Block) {
        let limit = self.field(I32, at::THREADS + 4 * axis);
        let wraps = self.builder.ins().icmp(IntCC::Equal, next, limit);
        let carry = self.builder.create_block();
        self.builder.ins().brif(wraps, carry, &[], start, &[]);
        self.builder.switch_to_block(carry);
    }

    /// Writes the entry block of a thread last: only then is it known which fields it loads.
    pub(super) fn write_before(&mut self) {
        let Some(record) = self.record else { return };
        self.builder.switch_to_block(self.before);
        for (offset, (variable, ty)) in self.fields.clone() {
            let value = self.builder.ins().load(ty, super::CONSTANT, self.context, offset);
            self.builder.def_var(variable, value);
        }
        self.dispatch(record);
    }

    /// Begins code that resumes one thread as its record says.
    pub(super) fn begin_thread(&mut self, record: Value) {
        self.record = Some(record);
        let linear = self.kept(I32, at::LINEAR);
        self.linear = Some(self.builder.ins().uextend(I64, linear));
        for index in 0..3 {
            let offset = at::THREAD + 4 * index;
            self.thread[index as usize] = Here::Fixed(self.kept(I32, offset));
        }
        self.local = self.kept(I64, at::RECORD_LOCAL);
        self.frame = self.local;
        let mut slot = super::SAVED as i32;
        let waits = self.graph.spans.iter().enumerate().filter_map(|(index, span)| {
            let last = self.task.flat.body.statements.get(span.end.wrapping_sub(1))?;
            (span.end > span.start && super::suspends(&last.op)).then_some(index)
        });
        for span in waits.collect::<Vec<_>>() {
            for register in self.outlives(span) {
                self.slots.entry(register).or_insert_with(|| {
                    slot += 8;
                    slot - 8
                });
            }
            let resume = self.builder.create_block();
            self.resumes.push(resume);
        }
        let carries =
            |statement: &Statement| matches!(statement.op, Op::Carry { .. } | Op::MadCarry { .. });
        if self.task.flat.body.statements.iter().any(carries) {
            self.carry_slot = Some((super::SAVED + 8 * self.saved_registers()) as i32);
        }
        self.before = self.builder.create_block();
        self.builder.ins().jump(self.before, &[]);
        self.entries = self.resumes.clone();
        let ended = self.ended();
        self.builder.switch_to_block(ended);
        self.answer(answer::DONE);
        // Each wait pops the next one.
        self.resumes.reverse();
    }

    /// Jumps to where the thread was suspended.
    fn dispatch(&mut self, record: Value) {
        let first = self.blocks[0];
        let resume = self.builder.ins().load(I32, OURS, record, at::RESUME);
        let mut targets = vec![self.builder.func.dfg.block_call(first, &[])];
        for block in self.entries.clone() {
            targets.push(self.builder.func.dfg.block_call(block, &[]));
        }
        let default = targets[0];
        let table = self.builder.create_jump_table(JumpTableData::new(default, &targets));
        self.builder.ins().br_table(resume, table);
    }

    /// Begins a called function.
    pub(super) fn begin_function(&mut self, arguments: &[Value]) {
        self.linear = Some(arguments[1]);
        self.local = arguments[2];
        self.frame = arguments[3];
        // The thread's index on each axis follows from its number.
        let x = self.field(I32, at::THREADS);
        let y = self.field(I32, at::THREADS + 4);
        let linear = self.builder.ins().ireduce(I32, arguments[1]);
        let rest = self.builder.ins().udiv(linear, x);
        self.thread = [
            self.builder.ins().urem(linear, x),
            self.builder.ins().urem(rest, y),
            self.builder.ins().udiv(rest, y),
        ]
        .map(Here::Fixed);
        // Calls without loops take time too.
        if !self.task.flat.body.statements.is_empty() {
            self.check_stop(&Op::Nothing);
        }
        let start = self.blocks[0];
        self.builder.ins().jump(start, &[]);
        let ended = self.ended();
        self.builder.switch_to_block(ended);
        self.answer(answer::DONE);
    }

    /// Leaves a block.
    pub(super) fn leave(&mut self, op: &Op) {
        match op {
            Op::Branch { to } => {
                let target = self.target(*to);
                self.check_stop_if_back(op, &[*to]);
                self.builder.ins().jump(target, &[]);
            }
            Op::BranchTable { index, to } => {
                self.check_stop_if_back(op, to);
                let index = self.value(index, Type::U32);
                let blocks: Vec<Block> = to.iter().map(|label| self.target(*label)).collect();
                let calls: Vec<_> = blocks
                    .iter()
                    .map(|block| self.builder.func.dfg.block_call(*block, &[]))
                    .collect();
                match calls.last() {
                    Some(last) => {
                        let table =
                            self.builder.create_jump_table(JumpTableData::new(*last, &calls));
                        self.builder.ins().br_table(index, table);
                    }
                    None => {
                        let ended = self.ended();
                        self.builder.ins().jump(ended, &[]);
                    }
                }
            }
            Op::Trap => {
                let site = self.site(op, Space::Generic, 0, false, false);
                self.call_hook(self.task.hooks.trap, site);
                self.stop();
            }
            // A thread that ends inside a function ends its callers too.
            Op::Exit if !self.task.flat.entry => self.answer(answer::WAITS),
            _ => {
                let ended = self.ended();
                self.builder.ins().jump(ended, &[]);
            }
        }
    }

    /// Calls a hook with the thread and the site.
    pub(super) fn call_hook(&mut self, hook: usize, site: i64) {
        let thread = self.linear();
        let site = self.number(site);
        self.host(hook, &[self.context, thread, site], None);
    }

    fn target(&mut self, label: Label) -> Block {
        let statement = self.task.flat.body.labels[label.0 as usize];
        let span = self.graph.span(statement);
        match span.and_then(|span| self.blocks.get(span)) {
            Some(block) => *block,
            None => self.ended(),
        }
    }

    /// Backward branches check whether the launch must end.
    fn check_stop_if_back(&mut self, op: &Op, to: &[Label]) {
        let back = |label: &Label| self.task.flat.body.labels[label.0 as usize] <= self.statement;
        if to.iter().any(back) {
            self.check_stop(op);
        }
    }

    /// Checks whether the launch must end.
    fn check_stop(&mut self, op: &Op) {
        let flag = self.stop_flag();
        let (stop, go) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(flag, stop, &[], go, &[]);
        self.builder.set_cold_block(stop);
        self.builder.switch_to_block(stop);
        let site = self.site(op, Space::Generic, 0, false, false);
        self.call_hook(self.task.hooks.stopped, site);
        self.stop();
        self.builder.switch_to_block(go);
    }

    /// Stores a number in the record.
    pub(super) fn keep(&mut self, value: Value, offset: i32) {
        let record = self.record.unwrap_or(self.context);
        self.builder.ins().store(OURS, value, record, offset);
    }
}
