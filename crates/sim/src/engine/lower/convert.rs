//! Conversions between number types.

use cranelift_codegen::ir::types::{F32, F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::float::{direction, suffix};
use super::{Lower, holder};
use crate::ptx::ast::{Float, Op, Rounding, Type};

impl Lower<'_, '_> {
    pub(super) fn convert(&mut self, op: &Op) {
        match op {
            Op::Convert { to_ty, from_ty, float, to, from } => {
                let value = self.value(from, *from_ty);
                let value = match (from_ty.is_float(), to_ty.is_float()) {
                    (false, false) => self.integers(*from_ty, *to_ty, *float, value),
                    (false, true) => self.float_of(*from_ty, *to_ty, *float, value),
                    (true, false) => self.integer_of(*from_ty, *to_ty, *float, value),
                    (true, true) => self.floats(*from_ty, *to_ty, *float, value),
                };
                self.write_as(*to, value, to_ty.is_signed());
            }
            Op::ConvertPair { to_ty, float, to, high, low } => {
                let one = if *to_ty == Type::F16x2 { Type::F16 } else { Type::BF16 };
                let (high, low) = (self.value(high, Type::F32), self.value(low, Type::F32));
                let high = self.floats(Type::F32, one, *float, high);
                let low = self.floats(Type::F32, one, *float, low);
                let value = self.join(low, high);
                self.write(*to, value);
            }
            _ => {}
        }
    }

    /// Extends an 8-bit value to its 16-bit register.
    fn settle(&mut self, ty: Type, value: Value) -> Value {
        if ty.bytes() != 1 || ty == Type::Pred {
            return value;
        }
        let held = self.builder.func.dfg.value_type(value);
        let byte = self.builder.ins().ireduce(cranelift_codegen::ir::types::I8, value);
        self.fit(byte, held, ty.is_signed())
    }

    fn integers(&mut self, from: Type, to: Type, float: Float, value: Value) -> Value {
        let value = self.settle(from, value);
        if float.saturate {
            let wide = self.fit(value, I64, from.is_signed());
            let bits = 8 * to.bytes();
            let (least, most): (i64, i64) = match (to.is_signed(), bits) {
                (true, 64) => (i64::MIN, i64::MAX),
                (true, _) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
                (false, 64) => (0, -1),
                (false, _) => (0, (1 << bits) - 1),
            };
            let clamped = match (from.is_signed(), to.is_signed(), bits) {
                // Positive numbers fit; negative ones become 0.
                (true, false, 64) => self.clamp(wide, 0, i64::MAX, true),
                (false, true, 64) => self.clamp(wide, 0, i64::MAX, false),
                (false, _, 64) | (true, true, 64) => wide,
                (false, _, _) => self.clamp(wide, 0, most, false),
                (true, _, _) => self.clamp(wide, least, most, true),
            };
            return self.fit(clamped, holder(to), false);
        }
        let value = self.fit(value, holder(to), from.is_signed());
        self.settle(to, value)
    }

    fn float_of(&mut self, from: Type, to: Type, float: Float, value: Value) -> Value {
        let value = self.settle(from, value);
        let wide = self.fit(value, if from.bytes() == 8 { I64 } else { I32 }, from.is_signed());
        let way = direction(float.rounding);
        let value = if way.is_none() && to.bytes() >= 4 {
            let wanted = if to == Type::F64 { F64 } else { F32 };
            let value = if from.is_signed() {
                self.builder.ins().fcvt_from_sint(wanted, wide)
            } else {
                self.builder.ins().fcvt_from_uint(wanted, wide)
            };
            self.as_bits(value)
        } else {
            let from = match (from.bytes(), from.is_signed()) {
                (8, true) => "s64",
                (8, false) => "u64",
                (_, true) => "s32",
                (_, false) => "u32",
            };
            self.named(&format!("{from}_to_{}_{}", suffix(to), way.unwrap_or("nearest")), &[wide])
        };
        if float.saturate { self.saturated(value, to) } else { value }
    }

    fn integer_of(&mut self, from: Type, to: Type, float: Float, value: Value) -> Value {
        let (from, value) = self.at_least_single(from, value);
        let value = self.flushed(value, from, float.flush);
        let way = direction(float.rounding);
        if way == Some("zero") && from == Type::F32 && to.bytes() == 4 {
            let real = self.as_float(value, from);
            return if to.is_signed() {
                self.builder.ins().fcvt_to_sint_sat(I32, real)
            } else {
                self.builder.ins().fcvt_to_uint_sat(I32, real)
            };
        }
        let to = super::integer::suffix(to);
        let name = format!("{}_to_{to}_{}", suffix(from), way.unwrap_or("nearest"));
        self.named(&name, &[value])
    }

    /// A half as a float, which is exact.
    fn at_least_single(&mut self, ty: Type, value: Value) -> (Type, Value) {
        if ty.bytes() > 2 {
            return (ty, value);
        }
        (Type::F32, self.named(&format!("{}_to_f32", suffix(ty)), &[value]))
    }

    fn floats(&mut self, from: Type, to: Type, float: Float, value: Value) -> Value {
        // Conversions flush only floats, not halves.
        let value = self.flushed(value, from, float.flush && from == Type::F32);
        let way = direction(float.rounding).unwrap_or("nearest");
        let whole = matches!(
            float.rounding,
            Some(
                Rounding::IntegerNearest
                    | Rounding::IntegerZero
                    | Rounding::IntegerDown
                    | Rounding::IntegerUp
            )
        );
        let value = match (from, to) {
            _ if from == to && whole => {
                let (wide, value) = self.at_least_single(from, value);
                let value = self.named(&format!("whole_{}_{way}", suffix(wide)), &[value]);
                if to.bytes() == 2 {
                    self.named(&format!("f32_to_{}_nearest", suffix(to)), &[value])
                } else {
                    value
                }
            }
            _ if from == to => value,
            (Type::F32, Type::F64) => {
                let real = self.as_float(value, from);
                let wide = self.builder.ins().fpromote(F64, real);
                self.as_bits(wide)
            }
            (Type::F64, Type::F32) if way == "nearest" => {
                let real = self.as_float(value, from);
                let narrow = self.builder.ins().fdemote(F32, real);
                self.as_bits(narrow)
            }
            (Type::F16 | Type::BF16, Type::F32 | Type::F64) => {
                self.named(&format!("{}_to_{}", suffix(from), suffix(to)), &[value])
            }
            (Type::F16 | Type::BF16, _) => {
                let (_, wide) = self.at_least_single(from, value);
                self.named(&format!("f32_to_{}_{way}", suffix(to)), &[wide])
            }
            _ => self.named(&format!("{}_to_{}_{way}", suffix(from), suffix(to)), &[value]),
        };
        let value = self.flushed(value, to, float.flush && to == Type::F32);
        if float.saturate { self.saturated(value, to) } else { value }
    }
}
