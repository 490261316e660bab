//! Finds registers that contain only floats. They are kept as floats, so that the CPU need not move them
//! between register files.

use std::collections::BTreeSet;

use cranelift_codegen::ir::types::{F32, F64};
use cranelift_codegen::ir::{self};

use super::holder;
use crate::ptx::ast::{Body, Op, Operand, Reg, Type};
use crate::ptx::visit::{Visitor, visit};

/// The uses of a register.
#[derive(Clone, Copy, Default)]
struct Uses {
    float: bool,
    other: bool,
}

/// The Cranelift type of each register.
pub(super) fn holders(body: &Body) -> Vec<ir::Type> {
    let mut uses = vec![Uses::default(); body.registers.len()];
    for statement in &body.statements {
        // A guard is a predicate, which is never a float.
        note(&statement.op, &mut uses);
    }
    body.registers
        .iter()
        .zip(uses)
        .map(|(register, uses)| match (register.ty.bytes(), uses) {
            (4, Uses { float: true, other: false }) => F32,
            (8, Uses { float: true, other: false }) => F64,
            _ => holder(register.ty),
        })
        .collect()
}

const fn is_real(ty: Type) -> bool {
    matches!(ty, Type::F32 | Type::F64)
}

fn float(operand: &Operand, uses: &mut [Uses]) {
    if let Operand::Register(register) = operand {
        uses[register.0 as usize].float = true;
    }
}

fn note(op: &Op, uses: &mut [Uses]) {
    match op {
        Op::Unary { ty, to, from, .. } if is_real(*ty) => {
            float(from, uses);
            uses[to.0 as usize].float = true;
        }
        Op::Binary { ty, to, left, right, .. } if is_real(*ty) => {
            float(left, uses);
            float(right, uses);
            uses[to.0 as usize].float = true;
        }
        Op::Ternary { ty, to, operands, .. } if is_real(*ty) => {
            operands.iter().for_each(|operand| float(operand, uses));
            uses[to.0 as usize].float = true;
        }
        Op::Convert { to_ty, from_ty, to, from, .. } if is_real(*to_ty) || is_real(*from_ty) => {
            if is_real(*from_ty) {
                float(from, uses);
            } else if let Operand::Register(register) = from {
                uses[register.0 as usize].other = true;
            }
            let to = &mut uses[to.0 as usize];
            if is_real(*to_ty) { to.float = true } else { to.other = true }
        }
        Op::SetPredicate { ty, left, right, .. } if is_real(*ty) => {
            float(left, uses);
            float(right, uses);
        }
        // A value that is only moved has the kind of its other uses.
        Op::Move { .. } | Op::Load { .. } | Op::Store { .. } | Op::Select { .. } => {
            let addresses = match op {
                Op::Load { from, .. } => Some(from.base),
                Op::Store { to, .. } => Some(to.base),
                _ => None,
            };
            if let Some(crate::ptx::ast::Base::Register(register)) = addresses {
                uses[register.0 as usize].other = true;
            }
        }
        _ => {
            struct Other<'a>(&'a mut [Uses]);
            impl Visitor for Other<'_> {
                fn read(&mut self, register: &mut Reg) {
                    self.0[register.0 as usize].other = true;
                }
                fn write(&mut self, register: &mut Reg) {
                    self.0[register.0 as usize].other = true;
                }
            }
            let mut statement =
                crate::ptx::ast::Statement { guard: None, op: op.clone(), line: 0, source: None };
            visit(&mut statement, &mut Other(uses));
        }
    }
}

/// Registers that are only selected between, or never read. A compiler may load such a value before it knows
/// whether the program needs it.
pub(super) fn only_chosen(body: &Body) -> BTreeSet<Reg> {
    struct Read(BTreeSet<Reg>);
    impl Visitor for Read {
        fn read(&mut self, register: &mut Reg) {
            self.0.insert(*register);
        }
    }
    let mut read = Read(BTreeSet::new());
    for statement in &body.statements {
        let mut seen = statement.clone();
        if let Op::Select { yes, no, .. } = &mut seen.op {
            (*yes, *no) = (Operand::Integer(0), Operand::Integer(0));
        }
        visit(&mut seen, &mut read);
    }
    let all = (0..body.registers.len()).filter_map(|number| u32::try_from(number).ok().map(Reg));
    all.filter(|register| !read.0.contains(register)).collect()
}
