//! Visits what an instruction reads, writes and names.
#![forbid(unsafe_code)]

use super::ast::{Address, Barrier, Base, Label, Op, Operand, Place, Predicate, Reg, Statement};

/// What to do with each register, label and place of an instruction.
pub trait Visitor {
    /// Called for a register that is read.
    fn read(&mut self, _register: &mut Reg) {}
    /// Called for a register that is written.
    fn write(&mut self, _register: &mut Reg) {}
    /// Called for a branch target.
    fn label(&mut self, _label: &mut Label) {}
    /// Called for a variable or parameter.
    fn place(&mut self, _place: &mut Place) {}
    /// Called for a function whose address is used.
    fn function(&mut self, _function: usize) {}
}

/// Visits a statement: what it reads before what it writes.
pub fn visit(statement: &mut Statement, visitor: &mut impl Visitor) {
    if let Some(guard) = &mut statement.guard {
        predicate(guard, visitor);
    }
    visit_op(&mut statement.op, visitor);
}

fn operand(operand: &mut Operand, visitor: &mut impl Visitor) {
    match operand {
        Operand::Register(register) => visitor.read(register),
        Operand::AddressOf(place, _) => visitor.place(place),
        Operand::Function(function) => visitor.function(*function),
        Operand::Integer(_) | Operand::Single(_) | Operand::Double(_) | Operand::Special(_) => {}
    }
}

fn predicate(predicate: &mut Predicate, visitor: &mut impl Visitor) {
    operand(&mut predicate.value, visitor);
}

fn address(address: &mut Address, visitor: &mut impl Visitor) {
    match &mut address.base {
        Base::Register(register) => visitor.read(register),
        Base::Place(place) => visitor.place(place),
        Base::Zero => {}
    }
}

fn operands<'a>(all: impl IntoIterator<Item = &'a mut Operand>, visitor: &mut impl Visitor) {
    all.into_iter().for_each(|one| operand(one, visitor));
}

fn visit_op(op: &mut Op, visitor: &mut impl Visitor) {
    match op {
        Op::Load { to, from, .. } => {
            address(from, visitor);
            to.iter_mut().flatten().for_each(|register| visitor.write(register));
        }
        Op::Store { to, from, .. } => {
            address(to, visitor);
            operands(from, visitor);
        }
        Op::Pack { to, from, .. } => {
            operands(from, visitor);
            visitor.write(to);
        }
        Op::Unpack { to, from, .. } => {
            operand(from, visitor);
            to.iter_mut().flatten().for_each(|register| visitor.write(register));
        }
        Op::Move { to, from, .. }
        | Op::ToGeneric { to, from, .. }
        | Op::FromGeneric { to, from, .. }
        | Op::IsSpace { to, from, .. }
        | Op::Convert { to, from, .. }
        | Op::Unary { to, from, .. }
        | Op::FindBit { to, from, .. }
        | Op::TestFloat { to, from, .. } => {
            operand(from, visitor);
            visitor.write(to);
        }
        Op::ConvertPair { to, high: left, low: right, .. }
        | Op::Mask { to, start: left, width: right, .. }
        | Op::Binary { to, left, right, .. }
        | Op::Carry { to, left, right, .. }
        | Op::SetNumber { to, left, right, .. } => {
            operands([left, right], visitor);
            visitor.write(to);
        }
        Op::Ternary { to, operands: all, .. }
        | Op::MadCarry { to, operands: all, .. }
        | Op::ExtractBits { to, operands: all, .. }
        | Op::Permute { to, operands: all, .. }
        | Op::FunnelShift { to, operands: all, .. }
        | Op::Logic3 { to, operands: all, .. }
        | Op::Dot4 { to, operands: all, .. } => {
            operands(all, visitor);
            visitor.write(to);
        }
        Op::InsertBits { to, operands: all, .. } => {
            operands(all, visitor);
            visitor.write(to);
        }
        Op::SetPredicate { combine, to, opposite, left, right, .. } => {
            operands([left, right], visitor);
            if let Some((_, with)) = combine {
                predicate(with, visitor);
            }
            [to, opposite].into_iter().flatten().for_each(|register| visitor.write(register));
        }
        Op::Select { to, yes, no, choose, .. } => {
            operands([yes, no], visitor);
            predicate(choose, visitor);
            visitor.write(to);
        }
        Op::Atomic { to, at, first, second, .. } => {
            address(at, visitor);
            operands(std::iter::once(first).chain(second), visitor);
            to.iter_mut().for_each(|register| visitor.write(register));
        }
        Op::Branch { to } => visitor.label(to),
        Op::BranchTable { index, to } => {
            operand(index, visitor);
            to.iter_mut().for_each(|label| visitor.label(label));
        }
        Op::Call { returns, arguments, .. } => {
            arguments.iter_mut().chain(returns).for_each(|place| visitor.place(place));
        }
        Op::CallIndirect { address, returns, arguments, .. } => {
            operand(address, visitor);
            arguments.iter_mut().chain(returns).for_each(|place| visitor.place(place));
        }
        Op::Barrier { kind, id, threads } => {
            operands(std::iter::once(id).chain(threads), visitor);
            if let Barrier::Reduce(_, to, with) = kind {
                predicate(with, visitor);
                visitor.write(to);
            }
        }
        Op::WarpSync { mask } => operand(mask, visitor),
        Op::Shuffle { to, valid, value, lane, clamp, mask, .. } => {
            operands([value, lane, clamp].into_iter().chain(mask), visitor);
            visitor.write(to);
            valid.iter_mut().for_each(|register| visitor.write(register));
        }
        Op::Vote { to, value, mask, .. } => {
            predicate(value, visitor);
            operands(mask, visitor);
            visitor.write(to);
        }
        Op::Match { to, valid, value, mask, .. } => {
            operands([value, mask], visitor);
            visitor.write(to);
            valid.iter_mut().for_each(|register| visitor.write(register));
        }
        Op::Redux { to, value, mask, .. } => {
            operands([value, mask], visitor);
            visitor.write(to);
        }
        Op::ActiveMask { to } => visitor.write(to),
        Op::LoadMatrix { to, from, .. } => {
            address(from, visitor);
            to.iter_mut().flatten().for_each(|register| visitor.write(register));
        }
        Op::Multiply { to, left, right, sum, .. } => {
            operands(left.iter_mut().chain(right).chain(sum), visitor);
            to.iter_mut().flatten().for_each(|register| visitor.write(register));
        }
        Op::CopyAsync { to, from, taken, ignore, .. } => {
            address(to, visitor);
            address(from, visitor);
            operands(taken.iter_mut(), visitor);
            ignore.iter_mut().for_each(|ignore| predicate(ignore, visitor));
        }
        Op::Return
        | Op::Exit
        | Op::Trap
        | Op::Fence
        | Op::Nothing
        | Op::CommitCopies
        | Op::GridBarrier
        | Op::WaitCopies { .. } => {}
    }
}
