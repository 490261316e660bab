//! Arithmetic of integers and predicates.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64};
use cranelift_codegen::ir::{self, InstBuilder, Value};

use super::{Lower, holder};
use crate::ptx::ast::{Binary, Op, Operand, Reg, Ternary, Type, Unary};

/// The suffix of an integer type in the names of `numbers`.
pub(super) fn suffix(ty: Type) -> &'static str {
    match (ty.bytes(), ty.is_signed()) {
        (1, true) => "s8",
        (1, false) => "u8",
        (2, true) => "s16",
        (2, false) => "u16",
        (4, true) => "s32",
        (4, false) => "u32",
        (_, true) => "s64",
        (_, false) => "u64",
    }
}

fn wider(ty: ir::Type) -> ir::Type {
    if ty == I16 { I32 } else { I64 }
}

impl Lower<'_, '_> {
    pub(super) fn integer(&mut self, op: &Op) {
        match op {
            Op::Unary { op, ty, to, from, .. } => self.integer_unary(*op, *ty, *to, from),
            Op::Binary { op, ty, float, to, left, right } => {
                let value = self.integer_binary(*op, *ty, left, right, float.saturate);
                let wide = matches!(op, Binary::MulWide);
                self.write_as(*to, value, wide && ty.is_signed());
            }
            Op::Ternary { op, ty, float, to, operands } => {
                let [left, right, third] = operands;
                let value = match op {
                    Ternary::Sad => {
                        let name = format!("sad_{}", suffix(*ty));
                        let all: Vec<Value> =
                            operands.iter().map(|operand| self.value(operand, *ty)).collect();
                        self.named(&name, &all)
                    }
                    Ternary::Mad24 => {
                        let product = self.integer_binary(Binary::Mul24, *ty, left, right, false);
                        let third = self.value(third, *ty);
                        self.builder.ins().iadd(product, third)
                    }
                    Ternary::MadWide => {
                        let product = self.integer_binary(Binary::MulWide, *ty, left, right, false);
                        let wide = if ty.bytes() == 2 { Type::B32 } else { Type::B64 };
                        let third = self.value(third, wide);
                        self.builder.ins().iadd(product, third)
                    }
                    Ternary::Mad | Ternary::MadHi | Ternary::Fma => {
                        let part =
                            if matches!(op, Ternary::MadHi) { Binary::MulHi } else { Binary::Mul };
                        let product = self.integer_binary(part, *ty, left, right, false);
                        let third = self.value(third, *ty);
                        if float.saturate {
                            self.add_saturated(product, third, false)
                        } else {
                            self.builder.ins().iadd(product, third)
                        }
                    }
                };
                self.write(*to, value);
            }
            _ => {}
        }
    }

    fn integer_unary(&mut self, op: Unary, ty: Type, to: Reg, from: &Operand) {
        let value = self.value(from, ty);
        let value = match op {
            Unary::Not if ty == Type::Pred => self.builder.ins().bxor_imm_u(value, 1),
            Unary::Not => self.builder.ins().bnot(value),
            Unary::Neg => self.builder.ins().ineg(value),
            Unary::Abs => {
                let negative = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, value, 0);
                let opposite = self.builder.ins().ineg(value);
                self.builder.ins().select(negative, opposite, value)
            }
            Unary::CNot => {
                let zero = self.builder.ins().icmp_imm_u(IntCC::Equal, value, 0);
                self.builder.ins().uextend(holder(ty), zero)
            }
            Unary::Popc => self.builder.ins().popcnt(value),
            Unary::Clz => self.builder.ins().clz(value),
            Unary::Brev => self.builder.ins().bitrev(value),
            // The others are for floats only; the parser refuses them for integers.
            _ => value,
        };
        self.write(to, value);
    }

    pub(super) fn integer_binary(
        &mut self,
        op: Binary,
        ty: Type,
        left: &Operand,
        right: &Operand,
        saturate: bool,
    ) -> Value {
        if let Binary::Shl | Binary::Shr = op {
            return self.shift(op, ty, left, right);
        }
        let (a, b) = (self.value(left, ty), self.value(right, ty));
        let held = holder(ty);
        match op {
            Binary::Add if saturate => self.add_saturated(a, b, false),
            Binary::Sub if saturate => self.add_saturated(a, b, true),
            Binary::Add => self.builder.ins().iadd(a, b),
            Binary::Sub => self.builder.ins().isub(a, b),
            Binary::Mul => self.builder.ins().imul(a, b),
            Binary::MulHi if held == I64 && ty.is_signed() => self.builder.ins().smulhi(a, b),
            Binary::MulHi if held == I64 => self.builder.ins().umulhi(a, b),
            Binary::MulHi | Binary::MulWide => {
                let wide = wider(held);
                let a = self.fit(a, wide, ty.is_signed());
                let b = self.fit(b, wide, ty.is_signed());
                let product = self.builder.ins().imul(a, b);
                if matches!(op, Binary::MulWide) {
                    return product;
                }
                let high = self.builder.ins().ushr_imm_u(product, i64::from(held.bits()));
                self.builder.ins().ireduce(held, high)
            }
            Binary::Mul24 => self.named(&format!("mul24_{}", suffix(ty)), &[a, b]),
            Binary::Div | Binary::Rem => self.divide(op, ty, a, b, right),
            Binary::Min | Binary::Max => {
                let condition = match (op, ty.is_signed()) {
                    (Binary::Min, true) => IntCC::SignedLessThan,
                    (Binary::Min, false) => IntCC::UnsignedLessThan,
                    (_, true) => IntCC::SignedGreaterThan,
                    (_, false) => IntCC::UnsignedGreaterThan,
                };
                let first = self.builder.ins().icmp(condition, a, b);
                self.builder.ins().select(first, a, b)
            }
            Binary::And => self.builder.ins().band(a, b),
            Binary::Or => self.builder.ins().bor(a, b),
            Binary::Xor => self.builder.ins().bxor(a, b),
            Binary::Shl | Binary::Shr | Binary::CopySign => a,
        }
    }

    /// A saturating 32-bit sum or difference.
    fn add_saturated(&mut self, a: Value, b: Value, subtract: bool) -> Value {
        let (a, b) = (self.builder.ins().sextend(I64, a), self.builder.ins().sextend(I64, b));
        let sum =
            if subtract { self.builder.ins().isub(a, b) } else { self.builder.ins().iadd(a, b) };
        let clamped = self.clamp(sum, i64::from(i32::MIN), i64::from(i32::MAX), true);
        self.builder.ins().ireduce(I32, clamped)
    }

    /// A value clamped to a range.
    pub(super) fn clamp(&mut self, value: Value, least: i64, most: i64, signed: bool) -> Value {
        let ty = self.builder.func.dfg.value_type(value);
        let (below, above) = if signed {
            (IntCC::SignedLessThan, IntCC::SignedGreaterThan)
        } else {
            (IntCC::UnsignedLessThan, IntCC::UnsignedGreaterThan)
        };
        let (least, most) = (self.whole(ty, least), self.whole(ty, most));
        let low = self.builder.ins().icmp(below, value, least);
        let value = self.builder.ins().select(low, least, value);
        let high = self.builder.ins().icmp(above, value, most);
        self.builder.ins().select(high, most, value)
    }

    pub(super) fn whole(&mut self, ty: ir::Type, value: i64) -> Value {
        let kept = match ty {
            I8 => value & 0xFF,
            I16 => value & 0xFFFF,
            I32 => value & 0xFFFF_FFFF,
            _ => value,
        };
        self.builder.ins().iconst(ty, kept)
    }

    /// Division. Dividing by zero gives a quotient with all bits set, and the dividend as remainder.
    fn divide(&mut self, op: Binary, ty: Type, a: Value, b: Value, divisor: &Operand) -> Value {
        let held = holder(ty);
        let quotient = matches!(op, Binary::Div);
        let plain = |lower: &mut Self, b: Value| match (quotient, ty.is_signed()) {
            (true, true) => lower.builder.ins().sdiv(a, b),
            (true, false) => lower.builder.ins().udiv(a, b),
            (false, true) => lower.builder.ins().srem(a, b),
            (false, false) => lower.builder.ins().urem(a, b),
        };
        let harmless = match divisor {
            Operand::Integer(bits) => {
                let mask = if held == I64 { u64::MAX } else { (1 << held.bits()) - 1 };
                bits & mask != 0 && bits & mask != mask
            }
            _ => false,
        };
        if harmless {
            return plain(self, b);
        }
        let one = self.builder.ins().iconst(held, 1);
        let all = self.whole(held, -1);
        let zero = self.builder.ins().icmp_imm_u(IntCC::Equal, b, 0);
        let mut odd = zero;
        let minus = self.builder.ins().icmp(IntCC::Equal, b, all);
        if ty.is_signed() {
            odd = self.builder.ins().bor(zero, minus);
        }
        let safe = self.builder.ins().select(odd, one, b);
        let mut value = plain(self, safe);
        if ty.is_signed() {
            // The least number divided by -1 would overflow.
            let opposite = if quotient {
                self.builder.ins().ineg(a)
            } else {
                self.builder.ins().iconst(held, 0)
            };
            value = self.builder.ins().select(minus, opposite, value);
        }
        let undefined = if quotient { all } else { a };
        self.builder.ins().select(zero, undefined, value)
    }

    fn shift(&mut self, op: Binary, ty: Type, left: &Operand, right: &Operand) -> Value {
        let held = holder(ty);
        let value = self.value(left, ty);
        let bits = held.bits();
        let signed = matches!(op, Binary::Shr) && ty.is_signed();
        if let Operand::Integer(amount) = right {
            let amount = (*amount & 0xFFFF_FFFF).min(u64::from(bits)) as i64;
            return match (op, amount == i64::from(bits)) {
                (Binary::Shr, true) if signed => {
                    self.builder.ins().sshr_imm_u(value, i64::from(bits) - 1)
                }
                (_, true) => self.builder.ins().iconst(held, 0),
                (Binary::Shl, _) => self.builder.ins().ishl_imm_u(value, amount),
                _ if signed => self.builder.ins().sshr_imm_u(value, amount),
                _ => self.builder.ins().ushr_imm_u(value, amount),
            };
        }
        let amount = self.value(right, Type::U32);
        let over = self.builder.ins().icmp_imm_u(
            IntCC::UnsignedGreaterThanOrEqual,
            amount,
            i64::from(bits),
        );
        if signed {
            let most = self.builder.ins().iconst(I32, i64::from(bits) - 1);
            let amount = self.builder.ins().select(over, most, amount);
            return self.builder.ins().sshr(value, amount);
        }
        let shifted = match op {
            Binary::Shl => self.builder.ins().ishl(value, amount),
            _ => self.builder.ins().ushr(value, amount),
        };
        let zero = self.builder.ins().iconst(held, 0);
        self.builder.ins().select(over, zero, shifted)
    }

    pub(super) fn carry(&mut self, op: &Op) {
        let (ty, to, subtract, reads, writes, a, b) = match op {
            Op::Carry { subtract, ty, reads, writes, to, left, right } => {
                let (a, b) = (self.value(left, *ty), self.value(right, *ty));
                (*ty, *to, *subtract, *reads, *writes, a, b)
            }
            Op::MadCarry { high, ty, reads, writes, to, operands: [left, right, third] } => {
                let part = if *high { Binary::MulHi } else { Binary::Mul };
                let product = self.integer_binary(part, *ty, left, right, false);
                let third = self.value(third, *ty);
                (*ty, *to, false, *reads, *writes, product, third)
            }
            _ => return,
        };
        let held = holder(ty);
        let flag = self.carry;
        let carry = if reads {
            let carry = self.builder.use_var(flag);
            self.builder.ins().uextend(held, carry)
        } else {
            self.builder.ins().iconst(held, 0)
        };
        // Two additions: at most one of them can overflow.
        let (first, one, second, two);
        if subtract {
            first = self.builder.ins().isub(a, b);
            one = self.builder.ins().icmp(IntCC::UnsignedLessThan, a, b);
            second = self.builder.ins().isub(first, carry);
            two = self.builder.ins().icmp(IntCC::UnsignedLessThan, first, carry);
        } else {
            first = self.builder.ins().iadd(a, b);
            one = self.builder.ins().icmp(IntCC::UnsignedLessThan, first, a);
            second = self.builder.ins().iadd(first, carry);
            two = self.builder.ins().icmp(IntCC::UnsignedLessThan, second, carry);
        }
        if writes {
            let carried = self.builder.ins().bor(one, two);
            self.builder.def_var(flag, carried);
        }
        self.write(to, second);
    }
}
