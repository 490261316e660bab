//! Floating-point arithmetic, on the bits in registers.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::Lower;
use crate::ptx::ast::{Atomic, Binary, Float, Op, Rounding, Ternary, Type, Unary};

/// The suffix of a rounding mode in the names of `numbers`; the nearest mode has none.
pub(super) fn direction(rounding: Option<Rounding>) -> Option<&'static str> {
    match rounding? {
        Rounding::Zero | Rounding::IntegerZero => Some("zero"),
        Rounding::Down | Rounding::IntegerDown => Some("down"),
        Rounding::Up | Rounding::IntegerUp => Some("up"),
        Rounding::Nearest | Rounding::IntegerNearest => None,
    }
}

/// The suffix of a float type.
pub(super) fn suffix(ty: Type) -> &'static str {
    match ty {
        Type::F16 | Type::F16x2 => "f16",
        Type::BF16 | Type::BF16x2 => "bf16",
        Type::F64 => "f64",
        _ => "f32",
    }
}

const fn is_pair(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::BF16x2)
}

impl Lower<'_, '_> {
    pub(super) fn float(&mut self, op: &Op) {
        let (ty, float, to, values) = match op {
            Op::Unary { ty, float, to, from, .. } => {
                (*ty, *float, *to, vec![self.value(from, *ty)])
            }
            Op::Binary { ty, float, to, left, right, .. } => {
                (*ty, *float, *to, vec![self.value(left, *ty), self.value(right, *ty)])
            }
            Op::Ternary { ty, float, to, operands, .. } => {
                let all = operands.iter().map(|operand| self.value(operand, *ty)).collect();
                (*ty, *float, *to, all)
            }
            _ => return,
        };
        let value = if is_pair(ty) {
            let one = if ty == Type::F16x2 { Type::F16 } else { Type::BF16 };
            let low: Vec<Value> = values.iter().map(|value| self.half(*value, false)).collect();
            let high: Vec<Value> = values.iter().map(|value| self.half(*value, true)).collect();
            let (low, high) = (self.sum(op, one, float, &low), self.sum(op, one, float, &high));
            self.join(low, high)
        } else {
            self.sum(op, ty, float, &values)
        };
        self.write(to, value);
    }

    /// One half of a pair.
    fn half(&mut self, pair: Value, high: bool) -> Value {
        let moved = if high { self.builder.ins().ushr_imm_u(pair, 16) } else { pair };
        self.builder.ins().ireduce(I16, moved)
    }

    /// A pair of two halves.
    pub(super) fn join(&mut self, low: Value, high: Value) -> Value {
        let (low, high) = (self.fit(low, I32, false), self.fit(high, I32, false));
        let high = self.builder.ins().ishl_imm_u(high, 16);
        self.builder.ins().bor(low, high)
    }

    fn sum(&mut self, op: &Op, ty: Type, float: Float, values: &[Value]) -> Value {
        let values: Vec<Value> =
            values.iter().map(|value| self.flushed(*value, ty, float.flush)).collect();
        let value = if ty.bytes() == 2 {
            self.sum_of_halves(op, ty, float, &values)
        } else {
            self.sum_of_floats(op, ty, float, &values)
        };
        let value = self.flushed(value, ty, float.flush);
        if float.saturate { self.saturated(value, ty) } else { value }
    }

    /// A value clamped to 0 to 1; NaN becomes 0.
    pub(super) fn saturated(&mut self, value: Value, ty: Type) -> Value {
        if ty.bytes() == 2 {
            let wide = self.named(&format!("{}_to_f32", suffix(ty)), &[value]);
            let wide = self.named("saturate_f32", &[wide]);
            return self.named(&format!("f32_to_{}_nearest", suffix(ty)), &[wide]);
        }
        self.named(&format!("saturate_{}", suffix(ty)), &[value])
    }

    /// Subnormal floats flushed to zero, if requested.
    pub(super) fn flushed(&mut self, value: Value, ty: Type, flush: bool) -> Value {
        let (exponent, sign) = match ty {
            Type::F32 => (0x7F80_0000, 0x8000_0000),
            Type::F16 => (0x7C00, 0x8000),
            _ => return value,
        };
        if !flush {
            return value;
        }
        let exponent = self.builder.ins().band_imm_u(value, exponent);
        let small = self.builder.ins().icmp_imm_u(IntCC::Equal, exponent, 0);
        let sign = self.builder.ins().band_imm_u(value, sign);
        self.builder.ins().select(small, sign, value)
    }

    /// A value as a Cranelift float; halves as `f32`.
    pub(super) fn real(&mut self, value: Value, ty: Type, flush: bool) -> Value {
        let value = self.flushed(value, ty, flush);
        if ty.bytes() == 2 {
            let wide = self.named(&format!("{}_to_f32", suffix(ty)), &[value]);
            return self.as_float(wide, Type::F32);
        }
        self.as_float(value, ty)
    }

    fn sum_of_halves(&mut self, op: &Op, ty: Type, float: Float, values: &[Value]) -> Value {
        let nan = if float.keep_nan { "_nan" } else { "" };
        let name = match op {
            Op::Unary { op, .. } => match op {
                Unary::Abs => "abs",
                Unary::Ex2 => "ex2",
                Unary::Tanh => "tanh",
                _ => "neg",
            }
            .to_owned(),
            Op::Binary { op, .. } => match op {
                Binary::Sub => "sub".to_owned(),
                Binary::Mul => "mul".to_owned(),
                Binary::Min => format!("min{nan}"),
                Binary::Max => format!("max{nan}"),
                _ => "add".to_owned(),
            },
            _ => "fma".to_owned(),
        };
        self.named(&format!("{name}_{}", suffix(ty)), values)
    }

    fn sum_of_floats(&mut self, op: &Op, ty: Type, float: Float, values: &[Value]) -> Value {
        let name = match op {
            Op::Unary { op: Unary::Sqrt, .. } => "sqrt",
            Op::Unary { op: Unary::Rcp, .. } => "rcp",
            Op::Binary { op: Binary::Add, .. } => "add",
            Op::Binary { op: Binary::Sub, .. } => "sub",
            Op::Binary { op: Binary::Mul, .. } => "mul",
            Op::Binary { op: Binary::Div, .. } => "div",
            Op::Ternary { .. } => "fma",
            _ => "",
        };
        if let (Some(direction), false) = (direction(float.rounding), name.is_empty()) {
            return self.named(&format!("{name}_{}_{direction}", suffix(ty)), values);
        }
        let real: Vec<Value> = values.iter().map(|value| self.as_float(*value, ty)).collect();
        let value = match op {
            Op::Unary { op, .. } => match op {
                Unary::Abs => self.builder.ins().fabs(real[0]),
                Unary::Neg => self.builder.ins().fneg(real[0]),
                Unary::Sqrt => self.builder.ins().sqrt(real[0]),
                Unary::Rcp => {
                    let one = self.one(ty);
                    self.builder.ins().fdiv(one, real[0])
                }
                Unary::Rsqrt => {
                    let one = self.one(ty);
                    let root = self.builder.ins().sqrt(real[0]);
                    self.builder.ins().fdiv(one, root)
                }
                Unary::Sin => return self.named("sin_approx_f32", values),
                Unary::Cos => return self.named("cos_approx_f32", values),
                Unary::Ex2 => return self.named("ex2_approx_f32", values),
                Unary::Lg2 => return self.named("lg2_approx_f32", values),
                Unary::Tanh => return self.named("tanh_approx_f32", values),
                Unary::ToTf32 => return self.named("f32_to_tf32_away", values),
                // The others are for integers only; the parser refuses them for floats.
                _ => real[0],
            },
            Op::Binary { op, .. } => match op {
                Binary::Add => self.builder.ins().fadd(real[0], real[1]),
                Binary::Sub => self.builder.ins().fsub(real[0], real[1]),
                Binary::Mul => self.builder.ins().fmul(real[0], real[1]),
                Binary::Div => self.builder.ins().fdiv(real[0], real[1]),
                Binary::Min | Binary::Max => {
                    self.least(*op == Binary::Min, ty, float.keep_nan, real[0], real[1])
                }
                // The sign of the first operand, the rest of the second.
                Binary::CopySign => self.builder.ins().fcopysign(real[1], real[0]),
                _ => real[0],
            },
            Op::Ternary { op: Ternary::Fma | Ternary::Mad, .. } => {
                self.builder.ins().fma(real[0], real[1], real[2])
            }
            _ => real[0],
        };
        self.as_bits(value)
    }

    fn one(&mut self, ty: Type) -> Value {
        match ty {
            Type::F64 => self.builder.ins().f64const(1.0),
            _ => self.builder.ins().f32const(1.0),
        }
    }

    /// The minimum or maximum. A number wins over NaN, unless NaN is to be kept.
    fn least(&mut self, min: bool, ty: Type, keep_nan: bool, a: Value, b: Value) -> Value {
        let both = if min { self.builder.ins().fmin(a, b) } else { self.builder.ins().fmax(a, b) };
        // The result is always the same NaN.
        let (held, bits) = match ty {
            Type::F64 => (I64, 0x7FFF_FFFF_FFFF_FFFF_u64 as i64),
            _ => (I32, 0x7FFF_FFFF),
        };
        let nan = self.whole(held, bits);
        let nan = self.as_float(nan, ty);
        let odd_a = self.builder.ins().fcmp(FloatCC::Unordered, a, a);
        let odd_b = self.builder.ins().fcmp(FloatCC::Unordered, b, b);
        if keep_nan {
            let odd = self.builder.ins().bor(odd_a, odd_b);
            return self.builder.ins().select(odd, nan, both);
        }
        let second = self.builder.ins().select(odd_b, nan, b);
        let value = self.builder.ins().select(odd_b, a, both);
        let other = self.builder.ins().select(odd_a, second, value);
        debug_assert!([F32, F64].contains(&self.builder.func.dfg.value_type(other)));
        other
    }

    /// The new value of an atomic operation on floats.
    pub(super) fn float_sum(
        &mut self,
        what: Atomic,
        ty: Type,
        before: Value,
        with: Value,
    ) -> Value {
        let op = match what {
            Atomic::Min => Binary::Min,
            Atomic::Max => Binary::Max,
            _ => Binary::Add,
        };
        if !ty.is_float() {
            // 16-bit sums; wider ones are CPU instructions.
            return self.builder.ins().iadd(before, with);
        }
        let (left, right) =
            (crate::ptx::ast::Operand::Integer(0), crate::ptx::ast::Operand::Integer(0));
        let to = crate::ptx::ast::Reg(0);
        let op = Op::Binary { op, ty, float: Float::default(), to, left, right };
        if is_pair(ty) {
            let one = if ty == Type::F16x2 { Type::F16 } else { Type::BF16 };
            let (a, b) = ([before, with], [before, with]);
            let low = a.map(|value| self.half(value, false));
            let high = b.map(|value| self.half(value, true));
            let float = Float::default();
            let (low, high) = (self.sum(&op, one, float, &low), self.sum(&op, one, float, &high));
            return self.join(low, high);
        }
        self.sum(&op, ty, Float::default(), &[before, with])
    }
}
