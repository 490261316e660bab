//! A kernel around the instructions of a test.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "a test may fail so")]

use gpulend_sim::ptx::ast::{Body, Float, Module, Op, Operand, Reg, Rounding};
use gpulend_sim::ptx::{ParseError, parse};

pub(crate) const P: Reg = Reg(0);
pub(crate) const Q: Reg = Reg(1);
pub(crate) const C: Reg = Reg(2);
pub(crate) const H0: Reg = Reg(3);
pub(crate) const H1: Reg = Reg(4);
pub(crate) const H2: Reg = Reg(5);
pub(crate) const H3: Reg = Reg(6);
pub(crate) const R0: Reg = Reg(7);
pub(crate) const R1: Reg = Reg(8);
pub(crate) const R2: Reg = Reg(9);
pub(crate) const R3: Reg = Reg(10);
pub(crate) const R4: Reg = Reg(11);
pub(crate) const D0: Reg = Reg(12);
pub(crate) const D1: Reg = Reg(13);
pub(crate) const D2: Reg = Reg(14);
pub(crate) const D3: Reg = Reg(15);

/// What comes before the instructions; they begin on line 8.
pub(crate) const BEFORE: &str = "\
.version 6.3
.target sm_75
.address_size 64
.visible .global .align 4 .b32 word; .const .b32 fixed = 5; .shared .b8 block[16];
.func (.param .b32 result) callee(.param .b32 x, .param .b64 y);
.visible .entry kernel(.param .u64 first, .param .u32 second) {
.reg .pred p, q, c; .reg .b16 h0, h1, h2, h3; .reg .b32 r0, r1, r2, r3, r4; .reg .b64 d0, d1, d2, d3;
";

pub(crate) fn module(instructions: &str) -> Result<Module, ParseError> {
    parse(&format!("{BEFORE}{instructions}\n}}\n"))
}

pub(crate) fn body(instructions: &str) -> Body {
    let module = module(instructions).unwrap_or_else(|error| panic!("{instructions}: {error}"));
    module.functions.into_iter().find_map(|function| function.body).unwrap()
}

/// What one instruction means to a newer processor.
pub(crate) fn newer_op(instruction: &str) -> Op {
    let text = format!("{BEFORE}{instruction}\n}}\n").replace("sm_75", "sm_80");
    let module = parse(&text).unwrap_or_else(|error| panic!("{instruction}: {error}"));
    let body = module.functions.into_iter().find_map(|function| function.body).unwrap();
    assert_eq!(body.statements.len(), 1, "{instruction}");
    body.statements.into_iter().next().unwrap().op
}

/// What one instruction means.
pub(crate) fn op(instruction: &str) -> Op {
    let body = body(instruction);
    assert_eq!(body.statements.len(), 1, "{instruction}");
    body.statements.into_iter().next().unwrap().op
}

/// Why one instruction is refused.
pub(crate) fn refused(instructions: &str) -> ParseError {
    match module(instructions) {
        Ok(_) => panic!("{instructions} was read"),
        Err(error) => error,
    }
}

pub(crate) const fn reg(register: Reg) -> Operand {
    Operand::Register(register)
}

pub(crate) const fn int(value: u64) -> Operand {
    Operand::Integer(value)
}

pub(crate) const PLAIN: Float =
    Float { rounding: None, flush: false, saturate: false, approximate: false, keep_nan: false };

pub(crate) const fn rounded(rounding: Rounding) -> Float {
    Float { rounding: Some(rounding), ..PLAIN }
}
