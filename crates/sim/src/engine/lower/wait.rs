//! Where a thread waits for others: it stores its operands, saves its state, and is resumed.

use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::{Lower, answer, at};
use crate::engine::graph::Touched;
use crate::ptx::ast::{Barrier, Op, Operand, Reg, Space, Type};

/// The mask of all lanes.
const EVERYONE: u32 = u32::MAX;
/// What lanes bring where an instruction has no mask.
const WHOLE_WARP: Operand = Operand::Integer(EVERYONE as u64);

impl Lower<'_, '_> {
    /// The registers that are live after the wait at the end of a span.
    pub(super) fn outlives(&self, span: usize) -> Vec<Reg> {
        let end = self.graph.spans[span].end;
        let statement = &self.task.flat.body.statements[end - 1];
        // If the guard is false, nothing is written.
        let written =
            if statement.guard.is_some() { Vec::new() } else { Touched::of(statement).writes };
        self.live.of(span + 1).filter(|register| !written.contains(register)).collect()
    }

    pub(super) fn wait(&mut self, op: &Op, span: usize) {
        let Some(resume) = self.resumes.pop() else {
            // A recursive function cannot wait; such a module was refused at loading.
            self.stop();
            return;
        };
        // Waits are numbered from 1 in the order of the text.
        let number = (self.entries.len() - self.resumes.len()) as i64;
        let site = match op {
            // A row of a matrix.
            Op::LoadMatrix { .. } => self.site(op, Space::Shared, 16, false, false),
            _ => self.site(op, Space::Generic, 0, false, false),
        };
        for (index, operand) in self.brought(op).into_iter().enumerate() {
            let value = self.fit(operand, I64, false);
            self.keep(value, at::OPERANDS + 8 * index as i32);
        }
        if let Op::Multiply { product, left, right, sum, .. } = op {
            self.bring_matrices(product.sum, [left, right, sum]);
        }
        let flag = self.carry;
        if let Some(slot) = self.carry_slot {
            let carry = self.builder.use_var(flag);
            self.keep(carry, slot);
        }
        let number = self.builder.ins().iconst(I32, number);
        self.keep(number, at::RESUME);
        let site = self.builder.ins().iconst(I32, site);
        self.keep(site, at::SITE);
        self.answer(answer::WAITS);
        // Here the thread resumes.
        self.builder.switch_to_block(resume);
        let soon: Vec<Reg> = self.needed_soon.of(span + 1).collect();
        for register in soon {
            self.take_up(register);
        }
        if let Some(slot) = self.carry_slot {
            let carry = self.kept(I8, slot);
            self.builder.def_var(flag, carry);
        }
        self.take(op);
        let next = self.next_of(span);
        self.builder.ins().jump(next, &[]);
    }

    /// The operands that a thread stores at a wait.
    fn brought(&mut self, op: &Op) -> Vec<Value> {
        let mut plain = |list: &[(&Operand, Type)]| {
            list.iter().map(|(operand, ty)| self.value(operand, *ty)).collect::<Vec<_>>()
        };
        match op {
            // The engine reads these from the instruction itself.
            Op::Barrier { kind: Barrier::Sync, id: Operand::Integer(_), threads: None } => {
                Vec::new()
            }
            Op::Barrier { kind, id, threads } => {
                let everyone = Operand::Integer(0);
                let mut all =
                    plain(&[(id, Type::U32), (threads.as_ref().unwrap_or(&everyone), Type::U32)]);
                if let Barrier::Reduce(_, _, predicate) = kind {
                    all.push(self.predicate(predicate));
                }
                all
            }
            Op::WarpSync { mask } => plain(&[(mask, Type::U32)]),
            Op::Shuffle { value, lane, clamp, mask, .. } => plain(&[
                (mask.as_ref().unwrap_or(&WHOLE_WARP), Type::U32),
                (value, Type::U32),
                (lane, Type::U32),
                (clamp, Type::U32),
            ]),
            Op::Vote { value, mask, .. } => {
                let mask = mask.as_ref().unwrap_or(&WHOLE_WARP);
                let mut all = plain(&[(mask, Type::U32)]);
                all.push(self.predicate(value));
                all
            }
            Op::Match { ty, value, mask, .. } => plain(&[(mask, Type::U32), (value, *ty)]),
            Op::Redux { value, mask, .. } => plain(&[(mask, Type::U32), (value, Type::U32)]),
            Op::LoadMatrix { space, from, .. } => {
                let (space, mut value) = self.locate(*space, from);
                if space != Space::Shared {
                    let base = self.field(I64, at::SHARED);
                    value = self.builder.ins().isub(value, base);
                }
                vec![self.number(EVERYONE.into()), value]
            }
            Op::Multiply { .. } => vec![self.number(EVERYONE.into())],
            _ => Vec::new(),
        }
    }

    /// Stores the registers of both matrices and of what is added, as `numbers::matrix` expects them.
    fn bring_matrices(&mut self, sum: Type, all: [&[Operand]; 3]) {
        let ty = if sum == Type::F64 { Type::B64 } else { Type::B32 };
        for (part, first) in all.into_iter().zip([8, 24, 32]) {
            for (index, operand) in part.iter().enumerate() {
                let value = self.value(operand, ty);
                self.keep(value, at::OPERANDS + first + (index as u32 * ty.bytes()) as i32);
            }
        }
    }

    /// Reads the results of a wait.
    fn take(&mut self, op: &Op) {
        if let Op::LoadMatrix { to, .. } | Op::Multiply { to, .. } = op {
            let wide = matches!(op, Op::Multiply { product, .. } if product.sum == Type::F64);
            let (ty, step) = if wide { (I64, 8) } else { (I32, 4) };
            for (index, register) in to.iter().enumerate() {
                let Some(register) = register else { continue };
                let value = self.kept(ty, at::RESULTS + step * index as i32);
                self.write(*register, value);
            }
            return;
        }
        let (to, valid) = match op {
            Op::Barrier { kind: Barrier::Reduce(_, to, _), .. } => (*to, None),
            Op::Shuffle { to, valid, .. } | Op::Match { to, valid, .. } => (*to, *valid),
            Op::Vote { to, .. } | Op::Redux { to, .. } | Op::ActiveMask { to } => (*to, None),
            _ => return,
        };
        let value = self.kept(I64, at::RESULTS);
        self.write(to, value);
        if let Some(valid) = valid {
            let value = self.kept(I64, at::RESULTS + 8);
            self.write(valid, value);
        }
    }

    /// `bar.arrive`: counts as arrived, without waiting.
    pub(super) fn arrive(&mut self, id: &Operand, threads: Option<&Operand>) {
        let everyone = Operand::Integer(0);
        let op = self.task.flat.body.statements[self.statement].op.clone();
        let site = self.site(&op, Space::Generic, 0, false, false);
        let site = self.number(site);
        let id = self.value(id, Type::U64);
        let threads = self.value(threads.unwrap_or(&everyone), Type::U64);
        let thread = self.linear();
        let hook = self.task.hooks.arrive;
        self.host(hook, &[self.context, thread, site, id, threads], None);
    }
}
