//! Loads, stores and atomic operations, with the requested checks.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{self, AtomicRmwOp, InstBuilder, MemFlagsData, Value};

use super::{Lower, OURS, at, holder};
use crate::engine::shadow::MANY;
use crate::ptx::ast::{Address, Atomic, Base, Op, Operand, Place, Space, Strength, Type};

/// Memory of the program: accessible once checked, possibly unaligned.
const THEIRS: MemFlagsData = MemFlagsData::new().with_notrap();

impl Lower<'_, '_> {
    pub(super) fn memory(&mut self, op: &Op) {
        match op {
            Op::Load { space, ty, to, from, strength } => {
                let bytes = ty.bytes() * to.len() as u32;
                let (pointer, flags) = self.pointer(op, *space, from, bytes, false);
                let values: Vec<Value> = to
                    .iter()
                    .enumerate()
                    .map(|(index, register)| {
                        let offset = (index as u32 * ty.bytes()) as i32;
                        let held = register.map(|register| self.holders[register.0 as usize]);
                        match held {
                            // Other threads may write it in the meantime, so it is read each time.
                            _ if *strength != Strength::Weak => {
                                self.load_afresh(*ty, pointer, offset)
                            }
                            Some(held) if held.is_float() && held.bytes() == ty.bytes() => {
                                self.builder.ins().load(held, flags, pointer, offset)
                            }
                            _ => self.load(*ty, flags, pointer, offset),
                        }
                    })
                    .collect();
                for (register, value) in to.iter().zip(values) {
                    if let Some(register) = register {
                        self.write_as(*register, value, ty.is_signed());
                    }
                }
            }
            Op::Store { space, ty, to, from, .. } => {
                let values: Vec<Value> =
                    from.iter().map(|operand| self.as_it_is(operand, *ty)).collect();
                let bytes = ty.bytes() * from.len() as u32;
                if self.task.checks.shared {
                    self.stored.clone_from(&values);
                }
                let (pointer, flags) = self.pointer(op, *space, to, bytes, true);
                self.stored.clear();
                self.store(&values, *ty, flags, pointer, 0);
            }
            Op::Atomic { space, op: what, ty, to, at, first, second } => {
                let first = self.value(first, *ty);
                let second = second.as_ref().map(|operand| self.value(operand, *ty));
                let (pointer, _) = self.pointer(op, *space, at, ty.bytes(), true);
                let old = self.atomic(*what, *ty, pointer, first, second);
                if let Some(to) = to {
                    self.write(*to, old);
                }
            }
            _ => {}
        }
    }

    /// Stores values one after another.
    fn store(
        &mut self,
        values: &[Value],
        ty: Type,
        flags: MemFlagsData,
        pointer: Value,
        first: i32,
    ) {
        for (index, value) in values.iter().enumerate() {
            let offset = first + (index as u32 * ty.bytes()) as i32;
            if ty.bytes() == 1 {
                self.builder.ins().istore8(flags, *value, pointer, offset);
            } else {
                self.builder.ins().store(flags, *value, pointer, offset);
            }
        }
    }

    fn load_afresh(&mut self, ty: Type, pointer: Value, offset: i32) -> Value {
        let pointer = self.builder.ins().iadd_imm_s(pointer, i64::from(offset));
        if ty.bytes() > 1 {
            return self.builder.ins().atomic_load(holder(ty), THEIRS, pointer);
        }
        let byte = self.builder.ins().atomic_load(I8, THEIRS, pointer);
        self.fit(byte, I16, ty.is_signed())
    }

    /// The value of an operand, as a float if its register is one of that width.
    fn as_it_is(&mut self, operand: &Operand, ty: Type) -> Value {
        if let Operand::Register(register) = operand {
            let held = self.holders[register.0 as usize];
            if held.is_float() && held.bytes() == ty.bytes() {
                return self.register(*register);
            }
        }
        self.value(operand, ty)
    }

    fn load(&mut self, ty: Type, flags: MemFlagsData, pointer: Value, offset: i32) -> Value {
        match ty.bytes() {
            1 if ty.is_signed() => self.builder.ins().sload8(I16, flags, pointer, offset),
            1 => self.builder.ins().uload8(I16, flags, pointer, offset),
            _ => self.builder.ins().load(holder(ty), flags, pointer, offset),
        }
    }

    /// The host address of a checked access.
    fn pointer(
        &mut self,
        op: &Op,
        space: Space,
        address: &Address,
        bytes: u32,
        writes: bool,
    ) -> (Value, MemFlagsData) {
        // Named parameters and call slots have fixed offsets.
        if space == Space::Param
            && let Base::Place(place) = address.base
        {
            let pointer = self.address_of(place, address.offset);
            let fixed = self.task.flat.entry && matches!(place, Place::Param(_));
            return (pointer, if fixed { super::CONSTANT } else { OURS });
        }
        let (space, value) = self.locate(space, address);
        let atomic = matches!(
            op,
            Op::Atomic { .. }
                | Op::Load { strength: Strength::Strong, .. }
                | Op::Store { strength: Strength::Strong, .. }
        );
        let site = self.site(op, space, bytes, writes, atomic);
        let pointer = match space {
            Space::Shared => self.shared(value, site, bytes),
            Space::Local => self.own(value, site, bytes),
            _ => {
                if self.task.checks.memory {
                    self.look_up(value, site, bytes);
                }
                value
            }
        };
        (pointer, THEIRS)
    }

    /// The value of an address, and the space that it is in.
    pub(super) fn locate(&mut self, space: Space, address: &Address) -> (Space, Value) {
        let value = match address.base {
            Base::Register(register) => {
                // A 32-bit address wraps around as such.
                let ty = self.task.flat.body.registers[register.0 as usize].ty;
                let ty = if ty.bytes() == 4 { Type::U32 } else { Type::U64 };
                let value = self.value(&Operand::Register(register), ty);
                let value = self.builder.ins().iadd_imm_s(value, address.offset);
                if space == Space::Param && ty == Type::U32 {
                    // The low half of a parameter's address; the parameters themselves tell the rest.
                    let base = self.field(I64, at::PARAMS);
                    let low = self.builder.ins().ireduce(I32, base);
                    let distance = self.builder.ins().isub(value, low);
                    let distance = self.fit(distance, I64, false);
                    self.builder.ins().iadd(base, distance)
                } else {
                    self.fit(value, I64, false)
                }
            }
            Base::Place(place) => self.address_of(place, address.offset),
            Base::Zero => self.number(address.offset),
        };
        // The instruction may name a shared variable of the module without a state space.
        let space = match (space, address.base) {
            (Space::Generic, Base::Place(Place::Body(index))) => {
                self.task.flat.body.variables[index].space
            }
            (Space::Generic, Base::Place(Place::Module(index))) => {
                self.task.module.variables[index].space
            }
            _ => space,
        };
        (space, value)
    }

    /// `cp.async`.
    pub(super) fn copy_async(&mut self, op: &Op) {
        let Op::CopyAsync { bytes, to, from, taken, ignore } = op else { return };
        let ((_, to), (_, from)) =
            (self.locate(Space::Shared, to), self.locate(Space::Global, from));
        let mut count = match taken {
            Some(taken) => {
                let taken = self.value(taken, Type::U32);
                self.fit(taken, I64, false)
            }
            None => self.number(i64::from(*bytes)),
        };
        if let Some(ignore) = ignore {
            let (ignored, none) = (self.predicate(ignore), self.number(0));
            count = self.builder.ins().select(ignored, none, count);
        }
        // Of the two accesses, the hook gets the site of the second.
        self.site(op, Space::Global, *bytes, false, false);
        let site = self.site(op, Space::Shared, *bytes, true, false);
        let (thread, site) = (self.linear(), self.number(site));
        let hook = self.task.hooks.copy;
        let answered = self.host(hook, &[self.context, thread, site, to, from, count], Some(I64));
        self.stop_unless_zero(answered);
    }

    /// `cp.async.commit_group`, or a wait for copies.
    pub(super) fn copies(&mut self, op: &Op) {
        let thread = self.linear();
        match op {
            Op::WaitCopies { left } => {
                // All copies: more than any number of groups.
                let left = self.number(left.map_or(-1, |left| left.min(1 << 32) as i64));
                let hook = self.task.hooks.wait_copies;
                self.host(hook, &[self.context, thread, left], None);
            }
            _ => {
                let hook = self.task.hooks.commit_copies;
                self.host(hook, &[self.context, thread], None);
            }
        }
    }

    fn stop_unless_zero(&mut self, answered: Option<Value>) {
        let Some(answered) = answered else { return };
        let go = self.builder.create_block();
        let stopped = self.stopped();
        self.builder.ins().brif(answered, stopped, &[], go, &[]);
        self.builder.switch_to_block(go);
    }

    /// Whether an address is aligned to the size of the access, if that is checked.
    fn aligned(&mut self, value: Value, bytes: u32) -> Option<Value> {
        (bytes > 1).then(|| {
            let rest = self.builder.ins().band_imm_u(value, i64::from(bytes) - 1);
            self.builder.ins().icmp_imm_u(IntCC::Equal, rest, 0)
        })
    }

    /// Ends the launch unless a condition is true.
    fn insist(&mut self, good: Value, site: i64, value: Value) {
        let (bad, go) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(good, go, &[], bad, &[]);
        self.builder.set_cold_block(bad);
        self.builder.switch_to_block(bad);
        let thread = self.linear();
        let site = self.number(site);
        let hook = self.task.hooks.refuse;
        self.host(hook, &[self.context, thread, site, value], Some(I64));
        self.stop();
        self.builder.switch_to_block(go);
    }

    /// Calls a hook. The launch ends unless it returns 0.
    fn ask(&mut self, hook: Option<ir::FuncRef>, site: i64, value: Value) {
        let Some(hook) = hook else { return };
        if let Op::Store { ty, .. } = &self.task.flat.body.statements[self.statement].op {
            let stored = std::mem::take(&mut self.stored);
            self.store(&stored, *ty, OURS, self.context, at::WRITTEN);
        }
        let thread = self.linear();
        let site = self.number(site);
        self.builder.ins().call(hook, &[self.context, thread, site, value]);
        let answered = self.builder.ins().load(I64, OURS, self.context, at::ANSWER);
        self.stop_unless_zero(Some(answered));
    }

    /// Checks that a device address is in memory that the launch may access.
    fn look_up(&mut self, value: Value, site: i64, bytes: u32) {
        let sites = self.field(I64, at::SITES);
        let offset = (site * 16) as i32;
        let base = self.builder.ins().load(I64, OURS, sites, offset);
        let limit = self.builder.ins().load(I64, OURS, sites, offset + 8);
        let distance = self.builder.ins().isub(value, base);
        // Rotated, so that an unaligned address becomes a very large number.
        let turns = i64::from(bytes.trailing_zeros());
        let place = self.builder.ins().rotr_imm_u(distance, turns);
        let good = self.builder.ins().icmp(IntCC::UnsignedLessThan, place, limit);
        let (bad, go) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(good, go, &[], bad, &[]);
        self.builder.set_cold_block(bad);
        self.builder.switch_to_block(bad);
        let hook = self.called.quiet.map(|quiet| quiet.look_up);
        self.ask(hook, site, value);
        self.builder.ins().jump(go, &[]);
        self.builder.switch_to_block(go);
    }

    /// The host address of a place in shared memory.
    fn shared(&mut self, value: Value, site: i64, bytes: u32) -> Value {
        if self.task.checks.memory {
            let length = self.field(I64, at::SHARED_BYTES);
            self.inside(value, length, site, bytes);
        }
        let speculative = self.sites.last().is_some_and(|site| site.speculative);
        if self.task.checks.shared && !speculative {
            self.note_shared(value, site, bytes);
        }
        let base = self.field(I64, at::SHARED);
        self.builder.ins().iadd(base, value)
    }

    /// The host address of a place in the thread's local memory.
    fn own(&mut self, value: Value, site: i64, bytes: u32) -> Value {
        if self.task.checks.memory {
            let length = self.field(I64, at::LOCAL_BYTES);
            self.inside(value, length, site, bytes);
        }
        self.builder.ins().iadd(self.local, value)
    }

    /// Checks that an access is inside `length` bytes.
    fn inside(&mut self, value: Value, length: Value, site: i64, bytes: u32) {
        let limit = self.builder.ins().iadd_imm_s(length, 1 - i64::from(bytes));
        // If the space is smaller than the access, the limit is negative.
        let fits = self.builder.ins().icmp(IntCC::SignedLessThan, value, limit);
        let positive = self.builder.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, value, 0);
        let mut good = self.builder.ins().band(fits, positive);
        if let Some(aligned) = self.aligned(value, bytes) {
            good = self.builder.ins().band(good, aligned);
        }
        self.insist(good, site, value);
    }

    /// Records an access to shared memory, to detect races.
    fn note_shared(&mut self, value: Value, site: i64, bytes: u32) {
        let hook = self.called.quiet.map(|quiet| quiet.share);
        let atomic = self.sites.last().is_some_and(|site| site.atomic);
        if !self.task.plain_shared || atomic || !self.task.checks.memory {
            return self.ask(hook, site, value);
        }
        let writes = self.sites.last().is_some_and(|site| site.writes);
        let shadow = self.field(I64, at::SHADOW);
        let epoch = self.field(I64, at::EPOCH);
        let thread = self.linear();
        let who = self.builder.ins().iadd_imm_u(thread, 1);
        let who = self.builder.ins().ishl_imm_u(who, 16);
        let me = self.builder.ins().bor(epoch, who);
        // Sixteen bytes of cells for each 4-byte word.
        let distance = self.builder.ins().ishl_imm_u(value, 2);
        let cells = self.builder.ins().iadd(shadow, distance);
        let mut good = None;
        let mut readers = Vec::new();
        for word in 0..(bytes / 4) as i32 {
            let written = self.builder.ins().load(I64, OURS, cells, 16 * word);
            let read = self.builder.ins().load(I64, OURS, cells, 16 * word + 8);
            let by_another = self.is_another(written, me);
            let read_by_another = self.is_another(read, me);
            let bad = if writes {
                self.builder.ins().bor(by_another, read_by_another)
            } else {
                let unwritten = self.builder.ins().icmp_imm_u(IntCC::Equal, written, 0);
                self.builder.ins().bor(by_another, unwritten)
            };
            let fine = self.builder.ins().bxor_imm_u(bad, 1);
            good = Some(match good {
                Some(before) => self.builder.ins().band(before, fine),
                None => fine,
            });
            readers.push(read_by_another);
        }
        let Some(good) = good else { return };
        let noted = self.builder.create_block();
        let plain = self.builder.create_block();
        let odd = self.builder.create_block();
        self.builder.ins().brif(good, plain, &[], odd, &[]);
        self.builder.set_cold_block(odd);
        self.builder.switch_to_block(odd);
        self.ask(hook, site, value);
        self.builder.ins().jump(noted, &[]);
        self.builder.switch_to_block(plain);
        let many = self.builder.ins().bor_imm_u(epoch, (MANY << 16) as i64);
        for (word, shared) in readers.into_iter().enumerate() {
            let offset = 16 * word as i32;
            if writes {
                self.builder.ins().store(OURS, me, cells, offset);
            } else {
                let mark = self.builder.ins().select(shared, many, me);
                self.builder.ins().store(OURS, mark, cells, offset + 8);
            }
        }
        self.builder.ins().jump(noted, &[]);
        self.builder.switch_to_block(noted);
    }

    /// Whether a mark is another thread's, made since the last barrier.
    fn is_another(&mut self, mark: Value, me: Value) -> Value {
        let difference = self.builder.ins().bxor(mark, me);
        let less = self.builder.ins().iadd_imm_s(difference, -1);
        self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThan, less, 0xFFFF_FFFF)
    }

    fn atomic(
        &mut self,
        what: Atomic,
        ty: Type,
        pointer: Value,
        first: Value,
        second: Option<Value>,
    ) -> Value {
        let wide = ty.bytes() >= 4 && !ty.is_float();
        let simple = match what {
            Atomic::And if wide => Some(AtomicRmwOp::And),
            Atomic::Or if wide => Some(AtomicRmwOp::Or),
            Atomic::Xor if wide => Some(AtomicRmwOp::Xor),
            Atomic::Add if wide => Some(AtomicRmwOp::Add),
            Atomic::Min if wide && ty.is_signed() => Some(AtomicRmwOp::Smin),
            Atomic::Min if wide => Some(AtomicRmwOp::Umin),
            Atomic::Max if wide && ty.is_signed() => Some(AtomicRmwOp::Smax),
            Atomic::Max if wide => Some(AtomicRmwOp::Umax),
            Atomic::Exch => Some(AtomicRmwOp::Xchg),
            _ => None,
        };
        if let Some(op) = simple {
            return self.builder.ins().atomic_rmw(holder(ty), THEIRS, op, pointer, first);
        }
        if let (Atomic::Cas, Some(second)) = (what, second) {
            return self.builder.ins().atomic_cas(THEIRS, pointer, first, second);
        }
        // Everything else is a compare-and-swap loop.
        let held = holder(ty);
        let (head, done) = (self.builder.create_block(), self.builder.create_block());
        let before = self.builder.append_block_param(head, held);
        let old = self.builder.append_block_param(done, held);
        let found = self.builder.ins().atomic_load(held, THEIRS, pointer);
        self.builder.ins().jump(head, &[found.into()]);
        self.builder.switch_to_block(head);
        let after = self.changed(what, ty, before, first);
        let seen = self.builder.ins().atomic_cas(THEIRS, pointer, before, after);
        let same = self.builder.ins().icmp(IntCC::Equal, seen, before);
        self.builder.ins().brif(same, done, &[before.into()], head, &[seen.into()]);
        self.builder.switch_to_block(done);
        old
    }

    /// The new value of an atomic operation.
    fn changed(&mut self, what: Atomic, ty: Type, before: Value, with: Value) -> Value {
        match what {
            Atomic::Inc => {
                let next = self.builder.ins().iadd_imm_u(before, 1);
                let over = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, before, with);
                let zero = self.builder.ins().iconst(holder(ty), 0);
                self.builder.ins().select(over, zero, next)
            }
            Atomic::Dec => {
                let next = self.builder.ins().iadd_imm_s(before, -1);
                let zero = self.builder.ins().icmp_imm_u(IntCC::Equal, before, 0);
                let over = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, before, with);
                let wraps = self.builder.ins().bor(zero, over);
                self.builder.ins().select(wraps, with, next)
            }
            _ => self.float_sum(what, ty, before, with),
        }
    }

    /// Copies bytes within the engine's own memory.
    pub(super) fn copy(&mut self, from: Value, to: Value, bytes: u32) {
        let mut done = 0;
        while done < bytes {
            let (ty, step): (ir::Type, u32) = match bytes - done {
                8.. => (I64, 8),
                4.. => (I32, 4),
                2.. => (I16, 2),
                _ => (I8, 1),
            };
            let value = self.builder.ins().load(ty, THEIRS, from, done as i32);
            self.builder.ins().store(THEIRS, value, to, done as i32);
            done += step;
        }
    }
}
