//! Bit fields, comparisons and selections.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::{Lower, holder};
use crate::ptx::ast::{Combine, Compare, Op, Operand, Test, Type};

impl Lower<'_, '_> {
    pub(super) fn bits(&mut self, op: &Op) {
        match op {
            Op::ExtractBits { ty, to, operands: [value, position, length] } => {
                let all = [
                    self.value(value, *ty),
                    self.value(position, Type::U32),
                    self.value(length, Type::U32),
                ];
                let value = self.named(&format!("bfe_{}", super::integer::suffix(*ty)), &all);
                self.write(*to, value);
            }
            Op::InsertBits { ty, to, operands: [what, into, position, length] } => {
                let all = [
                    self.value(what, *ty),
                    self.value(into, *ty),
                    self.value(position, Type::U32),
                    self.value(length, Type::U32),
                ];
                let name = if ty.bytes() == 8 { "bfi_b64" } else { "bfi_b32" };
                let value = self.named(name, &all);
                self.write(*to, value);
            }
            Op::FindBit { ty, shift_amount, to, from } => {
                let value = self.value(from, *ty);
                let kind = if *shift_amount { "bfind_shift" } else { "bfind" };
                let name = format!("{kind}_{}", super::integer::suffix(*ty));
                let value = self.named(&name, &[value]);
                self.write(*to, value);
            }
            Op::Mask { wrap, to, start, width } => {
                let all = [self.value(start, Type::U32), self.value(width, Type::U32)];
                let name = if *wrap { "bmsk_wrap_b32" } else { "bmsk_clamp_b32" };
                let value = self.named(name, &all);
                self.write(*to, value);
            }
            Op::Permute { to, operands } => {
                let all = self.words(operands);
                let value = self.named("prmt_b32", &all);
                self.write(*to, value);
            }
            Op::FunnelShift { left, wrap, to, operands } => {
                let all = self.words(operands);
                let name = match (left, wrap) {
                    (true, true) => "shf_left_wrap_b32",
                    (true, false) => "shf_left_clamp_b32",
                    (false, true) => "shf_right_wrap_b32",
                    (false, false) => "shf_right_clamp_b32",
                };
                let value = self.named(name, &all);
                self.write(*to, value);
            }
            Op::Logic3 { table, to, operands } => {
                let mut all = self.words(operands);
                all.push(self.value(&Operand::Integer(u64::from(*table)), Type::U32));
                let value = self.named("lop3_b32", &all);
                self.write(*to, value);
            }
            Op::Dot4 { signed, to, operands } => {
                let all = self.words(operands);
                let name = match signed {
                    (true, true) => "dp4a_s32_s32",
                    (true, false) => "dp4a_s32_u32",
                    (false, true) => "dp4a_u32_s32",
                    (false, false) => "dp4a_u32_u32",
                };
                let value = self.named(name, &all);
                self.write(*to, value);
            }
            _ => {}
        }
    }

    fn words(&mut self, operands: &[Operand]) -> Vec<Value> {
        operands.iter().map(|operand| self.value(operand, Type::U32)).collect()
    }

    pub(super) fn compare(&mut self, op: &Op) {
        match op {
            Op::SetPredicate { compare, ty, flush, combine, to, opposite, left, right } => {
                let found = self.compared(*compare, *ty, *flush, left, right);
                let other = self.builder.ins().bxor_imm_u(found, 1);
                let with = combine.as_ref().map(|(how, with)| (*how, self.predicate(with)));
                let first = self.combined(found, with);
                let second = self.combined(other, with);
                if let Some(to) = to {
                    self.write(*to, first);
                }
                if let Some(opposite) = opposite {
                    self.write(*opposite, second);
                }
            }
            Op::SetNumber { compare, to_ty, ty, flush, to, left, right } => {
                let found = self.compared(*compare, *ty, *flush, left, right);
                let held = holder(*to_ty);
                let yes = match to_ty {
                    Type::F32 => self.whole(held, i64::from(1.0_f32.to_bits())),
                    Type::F16 => self.whole(held, 0x3C00),
                    Type::BF16 => self.whole(held, 0x3F80),
                    _ => self.whole(held, -1),
                };
                let no = self.whole(held, 0);
                let value = self.builder.ins().select(found, yes, no);
                self.write(*to, value);
            }
            Op::Select { ty, to, yes, no, choose } => {
                let (yes, no) = (self.value(yes, *ty), self.value(no, *ty));
                let choose = self.predicate(choose);
                let value = self.builder.ins().select(choose, yes, no);
                self.write(*to, value);
            }
            Op::TestFloat { test, ty, to, from } => {
                let value = self.value(from, *ty);
                let found = self.tested(*test, *ty, value);
                self.write(*to, found);
            }
            _ => {}
        }
    }

    fn combined(&mut self, found: Value, with: Option<(Combine, Value)>) -> Value {
        match with {
            None => found,
            Some((Combine::And, with)) => self.builder.ins().band(found, with),
            Some((Combine::Or, with)) => self.builder.ins().bor(found, with),
            Some((Combine::Xor, with)) => self.builder.ins().bxor(found, with),
        }
    }

    fn compared(
        &mut self,
        compare: Compare,
        ty: Type,
        flush: bool,
        left: &Operand,
        right: &Operand,
    ) -> Value {
        let (a, b) = (self.value(left, ty), self.value(right, ty));
        if ty.is_float() {
            let (a, b) = (self.real(a, ty, flush), self.real(b, ty, flush));
            let condition = match compare {
                Compare::Eq => FloatCC::Equal,
                Compare::Ne => FloatCC::OrderedNotEqual,
                Compare::Lt => FloatCC::LessThan,
                Compare::Le => FloatCC::LessThanOrEqual,
                Compare::Gt => FloatCC::GreaterThan,
                Compare::Ge => FloatCC::GreaterThanOrEqual,
                Compare::UnEq => FloatCC::UnorderedOrEqual,
                Compare::UnNe => FloatCC::NotEqual,
                Compare::UnLt => FloatCC::UnorderedOrLessThan,
                Compare::UnLe => FloatCC::UnorderedOrLessThanOrEqual,
                Compare::UnGt => FloatCC::UnorderedOrGreaterThan,
                Compare::UnGe => FloatCC::UnorderedOrGreaterThanOrEqual,
                Compare::Num => FloatCC::Ordered,
                Compare::Nan => FloatCC::Unordered,
            };
            return self.builder.ins().fcmp(condition, a, b);
        }
        let signed = ty.is_signed();
        let condition = match compare {
            Compare::Ne | Compare::UnNe => IntCC::NotEqual,
            Compare::Lt | Compare::UnLt if signed => IntCC::SignedLessThan,
            Compare::Le | Compare::UnLe if signed => IntCC::SignedLessThanOrEqual,
            Compare::Gt | Compare::UnGt if signed => IntCC::SignedGreaterThan,
            Compare::Ge | Compare::UnGe if signed => IntCC::SignedGreaterThanOrEqual,
            Compare::Lt | Compare::UnLt => IntCC::UnsignedLessThan,
            Compare::Le | Compare::UnLe => IntCC::UnsignedLessThanOrEqual,
            Compare::Gt | Compare::UnGt => IntCC::UnsignedGreaterThan,
            Compare::Ge | Compare::UnGe => IntCC::UnsignedGreaterThanOrEqual,
            Compare::Eq | Compare::UnEq | Compare::Num | Compare::Nan => IntCC::Equal,
        };
        self.builder.ins().icmp(condition, a, b)
    }

    fn tested(&mut self, test: Test, ty: Type, value: Value) -> Value {
        let (exponent, sign): (i64, i64) = match ty {
            Type::F64 => (0x7FF0_0000_0000_0000, i64::MIN),
            Type::F16 => (0x7C00, 0x8000),
            Type::BF16 => (0x7F80, 0x8000),
            _ => (0x7F80_0000, 0x8000_0000),
        };
        let held = holder(ty);
        let sign = self.whole(held, !sign);
        let magnitude = self.builder.ins().band(value, sign);
        let infinity = self.whole(held, exponent);
        let field = self.builder.ins().band(value, infinity);
        let compare = |lower: &mut Self, condition: IntCC| {
            lower.builder.ins().icmp(condition, magnitude, infinity)
        };
        match test {
            Test::Finite => compare(self, IntCC::UnsignedLessThan),
            Test::Infinite => compare(self, IntCC::Equal),
            Test::Number => compare(self, IntCC::UnsignedLessThanOrEqual),
            Test::NotANumber => compare(self, IntCC::UnsignedGreaterThan),
            // Zeros count as normal, as in PTX.
            Test::Normal => {
                let large = self.builder.ins().icmp_imm_u(IntCC::NotEqual, field, 0);
                let zero = self.builder.ins().icmp_imm_u(IntCC::Equal, magnitude, 0);
                let some = self.builder.ins().bor(large, zero);
                let finite = compare(self, IntCC::UnsignedLessThan);
                self.builder.ins().band(some, finite)
            }
            Test::Subnormal => {
                let small = self.builder.ins().icmp_imm_u(IntCC::Equal, field, 0);
                let some = self.builder.ins().icmp_imm_u(IntCC::NotEqual, magnitude, 0);
                self.builder.ins().band(small, some)
            }
        }
    }
}
