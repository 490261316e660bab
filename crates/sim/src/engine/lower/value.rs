//! Operands: how they are read and written.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{self, InstBuilder, Value};

use super::{Lower, MemFlagsData, OURS, at, holder};
use crate::ptx::ast::{Axis, Op, Operand, Place, Predicate, Reg, Space, Special, Type};

/// The offset of an axis among three 32-bit numbers.
const fn axis(axis: Axis) -> i32 {
    match axis {
        Axis::X => 0,
        Axis::Y => 4,
        Axis::Z => 8,
    }
}

impl Lower<'_, '_> {
    /// The value of an operand, as an integer of the type's width; a predicate is 0 or 1.
    pub(super) fn value(&mut self, operand: &Operand, ty: Type) -> Value {
        let wanted = holder(ty);
        match *operand {
            Operand::Register(register) => {
                let value = self.register(register);
                let value = self.as_bits(value);
                self.fit(value, wanted, false)
            }
            Operand::Integer(bits) if ty == Type::Pred => {
                self.builder.ins().iconst(I8, i64::from(bits != 0))
            }
            Operand::Integer(bits) => self.constant(wanted, bits),
            Operand::Single(bits) if ty == Type::F64 => {
                self.constant(I64, f64::from(f32::from_bits(bits)).to_bits())
            }
            Operand::Single(bits) => self.constant(wanted, u64::from(bits)),
            Operand::Double(bits) if ty == Type::F32 => {
                self.constant(I32, u64::from((f64::from_bits(bits) as f32).to_bits()))
            }
            Operand::Double(bits) => self.constant(wanted, bits),
            Operand::Special(special) => {
                let value = self.special(special);
                self.fit(value, wanted, false)
            }
            Operand::Function(function) => self.constant(wanted, self.task.addresses.of(function)),
            Operand::AddressOf(place, offset) => {
                let value = self.address_of(place, offset);
                // The address of a function's parameter is in the thread's local memory.
                let value = if self.is_slot(place) {
                    self.builder.ins().isub(value, self.local)
                } else {
                    value
                };
                self.fit(value, wanted, false)
            }
        }
    }

    /// Whether it is a parameter or result of a function, which is in the frame.
    fn is_slot(&self, place: Place) -> bool {
        match place {
            Place::Body(index) => self.task.flat.body.variables[index].space == Space::Param,
            Place::Param(_) => !self.task.flat.entry,
            Place::Return(_) => true,
            Place::Module(_) => false,
        }
    }

    fn constant(&mut self, ty: ir::Type, bits: u64) -> Value {
        // Constants are given sign-extended or zero-extended from their own width.
        let kept = match ty {
            I8 => bits & 0xFF,
            I16 => bits & 0xFFFF,
            I32 => bits & 0xFFFF_FFFF,
            _ => bits,
        };
        self.builder.ins().iconst(ty, kept as i64)
    }

    /// The value of a predicate, negated if it says so.
    pub(super) fn predicate(&mut self, predicate: &Predicate) -> Value {
        let value = self.value(&predicate.value, Type::Pred);
        if predicate.negated { self.builder.ins().bxor_imm_u(value, 1) } else { value }
    }

    /// An integer converted to another width.
    pub(super) fn fit(&mut self, value: Value, wanted: ir::Type, signed: bool) -> Value {
        let found = self.builder.func.dfg.value_type(value);
        if found == wanted {
            value
        } else if found.bits() > wanted.bits() {
            self.builder.ins().ireduce(wanted, value)
        } else if signed {
            self.builder.ins().sextend(wanted, value)
        } else {
            self.builder.ins().uextend(wanted, value)
        }
    }

    /// Writes a register. A wider one is zero-extended.
    pub(super) fn write(&mut self, register: Reg, value: Value) {
        self.write_as(register, value, false);
    }

    /// Writes a register. A wider one is zero-extended or sign-extended.
    pub(super) fn write_as(&mut self, register: Reg, value: Value, signed: bool) {
        let value = match self.holders[register.0 as usize] {
            F32 => self.as_float(value, Type::F32),
            F64 => self.as_float(value, Type::F64),
            held => {
                let value = self.as_bits(value);
                self.fit(value, held, signed)
            }
        };
        self.set_register(register, value);
    }

    /// The same bits as a float.
    pub(super) fn as_float(&mut self, value: Value, ty: Type) -> Value {
        let wanted = if ty == Type::F64 { F64 } else { F32 };
        self.as_type(value, wanted)
    }

    /// The same bits as an integer.
    pub(super) fn as_bits(&mut self, value: Value) -> Value {
        match self.builder.func.dfg.value_type(value) {
            F32 => self.as_type(value, I32),
            F64 => self.as_type(value, I64),
            _ => value,
        }
    }

    /// The same bits as another type of the same width. Converting there and back emits nothing.
    fn as_type(&mut self, value: Value, wanted: ir::Type) -> Value {
        let graph = &self.builder.func.dfg;
        if graph.value_type(value) == wanted {
            return value;
        }
        if let ir::ValueDef::Result(instruction, _) = graph.value_def(value)
            && let ir::InstructionData::LoadNoOffset { opcode: ir::Opcode::Bitcast, arg, .. } =
                graph.insts[instruction]
            && graph.value_type(arg) == wanted
        {
            return arg;
        }
        let value = self.fit_width(value, wanted);
        self.builder.ins().bitcast(wanted, MemFlagsData::new(), value)
    }

    /// An integer with the width of a float.
    fn fit_width(&mut self, value: Value, wanted: ir::Type) -> Value {
        match (self.builder.func.dfg.value_type(value).is_int(), wanted) {
            (true, F32) => self.fit(value, I32, false),
            (true, F64) => self.fit(value, I64, false),
            _ => value,
        }
    }

    fn special(&mut self, special: Special) -> Value {
        match special {
            Special::Thread(which) => {
                let here = self.thread[axis(which) as usize / 4];
                self.here(here)
            }
            Special::Threads(which) => self.field(I32, at::THREADS + axis(which)),
            Special::Block(which) => self.field(I32, at::BLOCK + axis(which)),
            Special::Blocks(which) => self.field(I32, at::BLOCKS + axis(which)),
            Special::Lane => {
                let linear = self.linear();
                let lane = self.builder.ins().band_imm_u(linear, 31);
                self.builder.ins().ireduce(I32, lane)
            }
            Special::Warp => {
                let linear = self.linear();
                let warp = self.builder.ins().ushr_imm_u(linear, 5);
                self.builder.ins().ireduce(I32, warp)
            }
            Special::Warps => {
                let mut count = self.field(I32, at::THREADS);
                for offset in [4, 8] {
                    let next = self.field(I32, at::THREADS + offset);
                    count = self.builder.ins().imul(count, next);
                }
                let count = self.builder.ins().iadd_imm_u(count, 31);
                self.builder.ins().ushr_imm_u(count, 5)
            }
            Special::Processor => self.builder.ins().iconst(I32, 0),
            Special::Processors => self.builder.ins().iconst(I32, 1),
            Special::Grid => self.field(I64, at::GRID),
            Special::Cooperative => self.field(I32, at::COOPERATIVE),
            Special::WarpSize => self.builder.ins().iconst(I32, 32),
            Special::LaneEqual
            | Special::LanesBelow
            | Special::LanesUpTo
            | Special::LanesAbove
            | Special::LanesFrom => {
                let lane = self.special(Special::Lane);
                let one = self.builder.ins().iconst(I32, 1);
                let me = self.builder.ins().ishl(one, lane);
                let below = self.builder.ins().iadd_imm_s(me, -1);
                match special {
                    Special::LaneEqual => me,
                    Special::LanesBelow => below,
                    Special::LanesUpTo => self.builder.ins().bor(below, me),
                    Special::LanesFrom => self.builder.ins().bnot(below),
                    _ => {
                        let up_to = self.builder.ins().bor(below, me);
                        self.builder.ins().bnot(up_to)
                    }
                }
            }
            Special::Clock | Special::Clock64 | Special::Timer => {
                let hook = self.task.hooks.clock;
                let now = self.host(hook, &[], Some(I64));
                now.unwrap_or(self.context)
            }
            Special::DynamicShared => self.field(I32, at::DYNAMIC),
            Special::TotalShared => {
                let bytes = self.field(I64, at::SHARED_BYTES);
                self.builder.ins().ireduce(I32, bytes)
            }
        }
    }

    /// The address of a variable in its own space; for parameters, the host address.
    pub(super) fn address_of(&mut self, place: Place, offset: i64) -> Value {
        let flat = self.task.flat;
        let (space, base) = match place {
            Place::Module(index) => {
                let variable = &self.task.module.variables[index];
                if variable.space == Space::Shared {
                    (Space::Shared, i64::from(self.task.shared.place(flat, place)))
                } else {
                    let variables = self.field(I64, at::VARIABLES);
                    let address = self.builder.ins().load(
                        I64,
                        super::CONSTANT,
                        variables,
                        (index * 8) as i32,
                    );
                    return self.builder.ins().iadd_imm_s(address, offset);
                }
            }
            Place::Body(index) if flat.body.variables[index].space == Space::Shared => {
                (Space::Shared, i64::from(self.task.shared.place(flat, place)))
            }
            Place::Body(index) => {
                (flat.body.variables[index].space, i64::from(flat.offsets[index]))
            }
            Place::Param(index) => (Space::Param, i64::from(flat.params[index].offset)),
            Place::Return(index) => (Space::Param, i64::from(flat.returns[index].0)),
        };
        match (space, place) {
            (Space::Shared, _) => self.number(base + offset),
            (Space::Param, Place::Param(_)) if flat.entry => {
                let params = self.field(I64, at::PARAMS);
                self.builder.ins().iadd_imm_s(params, base + offset)
            }
            (Space::Param, _) => self.builder.ins().iadd_imm_s(self.frame, base + offset),
            // Local addresses are offsets in the thread's local memory.
            _ => {
                let frame = self.builder.ins().isub(self.frame, self.local);
                self.builder.ins().iadd_imm_s(frame, base + offset)
            }
        }
    }

    pub(super) fn pack(&mut self, op: &Op) {
        match op {
            Op::Pack { ty, to, from } => {
                let wanted = holder(*ty);
                let bits = wanted.bits() / from.len() as u32;
                let part = if bits == 8 { Type::B8 } else { part(bits) };
                let mut sum = self.builder.ins().iconst(wanted, 0);
                for (index, operand) in from.iter().enumerate() {
                    let value = self.value(operand, part);
                    let mut value = self.fit(value, wanted, false);
                    if bits == 8 {
                        value = self.builder.ins().band_imm_u(value, 0xFF);
                    }
                    let shift = i64::from(bits) * index as i64;
                    let value = self.builder.ins().ishl_imm_u(value, shift);
                    sum = self.builder.ins().bor(sum, value);
                }
                self.write(*to, sum);
            }
            Op::Unpack { ty, to, from } => {
                let value = self.value(from, *ty);
                let bits = holder(*ty).bits() / to.len() as u32;
                // All are read before one is written: a register may be on both sides.
                let parts: Vec<Value> = (0..to.len())
                    .map(|index| {
                        let shift = i64::from(bits) * index as i64;
                        let moved = self.builder.ins().ushr_imm_u(value, shift);
                        let part = self.fit(
                            moved,
                            if bits == 8 { I16 } else { holder(part(bits)) },
                            false,
                        );
                        if bits == 8 { self.builder.ins().band_imm_u(part, 0xFF) } else { part }
                    })
                    .collect();
                for (register, part) in to.iter().zip(parts) {
                    if let Some(register) = register {
                        self.write(*register, part);
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn space(&mut self, op: &Op) {
        match op {
            Op::ToGeneric { space, to, from, .. } => {
                let value = self.value(from, Type::U64);
                let value = match space {
                    Space::Shared => {
                        let base = self.field(I64, at::SHARED);
                        self.builder.ins().iadd(value, base)
                    }
                    Space::Local => self.builder.ins().iadd(value, self.local),
                    _ => value,
                };
                self.write(*to, value);
            }
            Op::FromGeneric { space, to, from, .. } => {
                let value = self.value(from, Type::U64);
                let value = match space {
                    Space::Shared => {
                        let base = self.field(I64, at::SHARED);
                        self.builder.ins().isub(value, base)
                    }
                    Space::Local => self.builder.ins().isub(value, self.local),
                    _ => value,
                };
                self.write(*to, value);
            }
            Op::IsSpace { space, to, from } => {
                let value = self.value(from, Type::U64);
                let shared = self.within(value, at::SHARED, at::SHARED_BYTES);
                let bytes = self.field(I64, at::LOCAL_BYTES);
                let distance = self.builder.ins().isub(value, self.local);
                let local = self.builder.ins().icmp(IntCC::UnsignedLessThan, distance, bytes);
                let found = match space {
                    Space::Shared => shared,
                    Space::Local => local,
                    // Constants are in device memory, and are treated as such.
                    Space::Const | Space::Param => self.builder.ins().iconst(I8, 0),
                    _ => {
                        let either = self.builder.ins().bor(shared, local);
                        self.builder.ins().bxor_imm_u(either, 1)
                    }
                };
                self.write(*to, found);
            }
            _ => {}
        }
    }

    fn within(&mut self, value: Value, base: i32, bytes: i32) -> Value {
        let base = self.field(I64, base);
        let bytes = self.field(I64, bytes);
        let distance = self.builder.ins().isub(value, base);
        self.builder.ins().icmp(IntCC::UnsignedLessThan, distance, bytes)
    }

    /// A value in the record.
    pub(super) fn kept(&mut self, ty: ir::Type, offset: i32) -> Value {
        let record = self.record.unwrap_or(self.context);
        self.builder.ins().load(ty, OURS, record, offset)
    }
}

/// The type with this many bits.
pub(super) const fn part(bits: u32) -> Type {
    match bits {
        8 => Type::B8,
        16 => Type::B16,
        32 => Type::B32,
        _ => Type::B64,
    }
}
