//! Calls of host functions and of recursive functions.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::{Callee, Lower, OURS, answer, at, holder};
use crate::engine::inline::Flat;
use crate::ptx::ast::{Operand, Place, Space, Type};

/// The minimum frame of a call in a thread's local memory, so that endless recursion ends.
pub(in crate::engine) const LEAST_FRAME: u32 = 64;

impl Lower<'_, '_> {
    pub(super) fn call(&mut self, function: usize, returns: &[Place], arguments: &[Place]) {
        match self.called.callees.get(&function) {
            Some(Callee::Host(found)) => {
                let passed: Vec<Value> = found
                    .params
                    .iter()
                    .zip(arguments)
                    .map(|(ty, place)| self.slot(*place, *ty))
                    .collect();
                let value = self.call_extern(found, &passed);
                if let Some(place) = returns.first() {
                    let slot = self.address_of(*place, 0);
                    self.builder.ins().store(OURS, value, slot, 0);
                }
            }
            Some(Callee::Print) => {
                let passed: Vec<Value> =
                    arguments.iter().map(|place| self.slot(*place, Type::U64)).collect();
                let hook = self.task.hooks.print;
                let mut all = vec![self.context];
                all.extend(passed);
                let thread = self.linear();
                all.push(thread);
                all.push(self.local);
                let count = self.host(hook, &all, Some(I32));
                if let (Some(place), Some(count)) = (returns.first(), count) {
                    let slot = self.address_of(*place, 0);
                    self.builder.ins().store(OURS, count, slot, 0);
                }
            }
            Some(Callee::Assert) => {
                let types = [Type::U64, Type::U64, Type::U32, Type::U64];
                let passed: Vec<Value> = arguments
                    .iter()
                    .zip(types)
                    .map(|(place, ty)| {
                        let value = self.slot(*place, ty);
                        self.fit(value, I64, false)
                    })
                    .collect();
                let op = self.task.flat.body.statements[self.statement].op.clone();
                let site = self.site(&op, Space::Generic, 0, false, false);
                let thread = self.linear();
                let site = self.number(site);
                let mut all = vec![self.context, thread, site];
                all.extend(passed);
                let hook = self.task.hooks.assert;
                self.host(hook, &all, None);
                self.stop();
                let after = self.builder.create_block();
                self.builder.switch_to_block(after);
            }
            Some(Callee::Allocate) => {
                let Some(bytes) = arguments.first() else { return };
                let bytes = self.slot(*bytes, Type::U64);
                let hook = self.task.hooks.allocate;
                let address = self.host(hook, &[self.context, bytes], Some(I64));
                if let (Some(place), Some(address)) = (returns.first(), address) {
                    let slot = self.address_of(*place, 0);
                    self.builder.ins().store(OURS, address, slot, 0);
                }
            }
            Some(Callee::Free) => {
                let Some(address) = arguments.first() else { return };
                let address = self.slot(*address, Type::U64);
                let op = self.task.flat.body.statements[self.statement].op.clone();
                let site = self.site(&op, Space::Generic, 0, false, false);
                let thread = self.linear();
                let site = self.number(site);
                let hook = self.task.hooks.free;
                let wrong = self.host(hook, &[self.context, thread, site, address], Some(I64));
                let Some(wrong) = wrong else { return };
                let after = self.builder.create_block();
                let stopped = self.stopped();
                self.builder.ins().brif(wrong, stopped, &[], after, &[]);
                self.builder.switch_to_block(after);
            }
            Some(Callee::Compiled(callee)) => {
                let callee = *callee;
                if let Some(flat) = self.task.functions.get(&function) {
                    self.call_compiled(callee, flat, returns, arguments);
                }
            }
            // A call of an undefined function is refused when the module is loaded.
            None => {}
        }
    }

    /// An indirect call of none of the functions that were compared before it.
    pub(super) fn call_none(&mut self, address: &Operand) {
        let address = self.value(address, Type::U64);
        let op = self.task.flat.body.statements[self.statement].op.clone();
        let site = self.site(&op, Space::Generic, 0, false, false);
        let thread = self.linear();
        let site = self.number(site);
        let hook = self.task.hooks.wild_call;
        self.host(hook, &[self.context, thread, site, address], None);
        self.stop();
        let after = self.builder.create_block();
        self.builder.switch_to_block(after);
    }

    /// The value in a call's slot.
    fn slot(&mut self, place: Place, ty: Type) -> Value {
        let slot = self.address_of(place, 0);
        self.builder.ins().load(holder(ty), OURS, slot, 0)
    }

    fn call_compiled(
        &mut self,
        callee: cranelift_codegen::ir::FuncRef,
        flat: &Flat,
        returns: &[Place],
        arguments: &[Place],
    ) {
        let mine = self.task.flat.frame_bytes.max(LEAST_FRAME);
        let theirs = self.builder.ins().iadd_imm_u(self.frame, i64::from(mine));
        // The frame must fit the thread's local memory.
        let needed = flat.frame_bytes.max(LEAST_FRAME);
        let end = self.builder.ins().iadd_imm_u(theirs, i64::from(needed));
        let used = self.builder.ins().isub(end, self.local);
        let room = self.field(I64, at::LOCAL_BYTES);
        let fits = self.builder.ins().icmp(IntCC::UnsignedLessThanOrEqual, used, room);
        // It must also fit the host's stack, where a frame holds all live values.
        let here = self.builder.ins().get_stack_pointer(I64);
        let floor = self.field(I64, at::FLOOR);
        let above = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, here, floor);
        let fits = self.builder.ins().band(fits, above);
        let (bad, good) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(fits, good, &[], bad, &[]);
        self.builder.set_cold_block(bad);
        self.builder.switch_to_block(bad);
        let op = self.task.flat.body.statements[self.statement].op.clone();
        let site = self.site(&op, Space::Local, 0, false, false);
        self.call_hook(self.task.hooks.overflow, site);
        self.stop();
        self.builder.switch_to_block(good);
        for (param, place) in flat.params.iter().zip(arguments) {
            let from = self.address_of(*place, 0);
            let to = self.builder.ins().iadd_imm_u(theirs, i64::from(param.offset));
            self.copy(from, to, param.bytes);
        }
        let thread = self.linear();
        let call = self.builder.ins().call(callee, &[self.context, thread, self.local, theirs]);
        let answered = self.builder.inst_results(call)[0];
        let (other, back) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(answered, other, &[], back, &[]);
        self.builder.set_cold_block(other);
        self.builder.switch_to_block(other);
        self.pass_on(answered);
        self.builder.switch_to_block(back);
        for ((offset, bytes), place) in flat.returns.iter().zip(returns) {
            let from = self.builder.ins().iadd_imm_u(theirs, i64::from(*offset));
            let to = self.address_of(*place, 0);
            self.copy(from, to, *bytes);
        }
    }

    /// Handles a callee in which the thread has ended, or a launch that must end.
    fn pass_on(&mut self, answered: Value) {
        if !self.task.flat.entry {
            self.builder.ins().return_(&[answered]);
            return;
        }
        let ends = self.builder.ins().icmp_imm_u(IntCC::Equal, answered, answer::WAITS);
        let (ended, stopped) = (self.ended(), self.stopped());
        self.builder.ins().brif(ends, ended, &[], stopped, &[]);
    }
}
