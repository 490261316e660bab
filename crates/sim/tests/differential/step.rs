//! One statement of one thread.

use gpulend_sim::ptx::ast::{
    Address, Binary, Body, Combine, Label, Op, Operand, Place, Predicate, Reg, Rounding, Space,
    Statement, Ternary, Type,
};

use crate::arithmetic::{self, extended, low, width};
use crate::machine::{
    Mutation, Plan, State, Stop, Thread, World, from_generic, number, put, size, stop, to_generic,
};

impl Plan<'_> {
    /// Does the next statement, unless the thread has to wait for others there.
    pub(crate) fn step(&self, world: &mut World, thread: &mut Thread) -> Result<(), Stop> {
        let frame = thread.frame()?;
        let (_, body) = self.function(frame.function)?;
        let Some(statement) = body.statements.get(frame.next) else {
            return self.come_back(thread);
        };
        if !self.guard_holds(thread, statement)? {
            thread.frame()?.next += 1;
            return Ok(());
        }
        match &statement.op {
            Op::Branch { to } => self.jump(thread, body, *to),
            Op::BranchTable { index, to } => {
                let index = size(self.read(thread, *index, Type::U32)?)?;
                match to.get(index) {
                    Some(label) => self.jump(thread, body, *label),
                    None => stop(format!("brx.idx has no target {index}")),
                }
            }
            Op::Call { function, arguments, .. } => self.call(thread, *function, arguments),
            Op::CallIndirect { address, prototype, arguments, .. } => {
                let address = self.read(thread, *address, Type::U64)?;
                let function = self.function_at(address, &body.prototypes[*prototype])?;
                self.call(thread, function, arguments)
            }
            Op::Return => self.come_back(thread),
            Op::Exit => {
                thread.state = State::Ended;
                Ok(())
            }
            Op::Trap => stop(format!("trap at line {}", statement.line)),
            Op::Barrier { .. }
            | Op::WarpSync { .. }
            | Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::ActiveMask { .. } => {
                thread.state = State::Waiting;
                Ok(())
            }
            op => {
                self.work(world, thread, op)
                    .map_err(|Stop(why)| Stop(format!("line {}: {why}", statement.line)))?;
                thread.frame()?.next += 1;
                Ok(())
            }
        }
    }

    fn jump(&self, thread: &mut Thread, body: &Body, label: Label) -> Result<(), Stop> {
        thread.frame()?.next = body.labels[label.0 as usize];
        Ok(())
    }

    fn guard_holds(&self, thread: &Thread, statement: &Statement) -> Result<bool, Stop> {
        match statement.guard {
            None => Ok(true),
            Some(guard) if self.setup.mutation == Some(Mutation::IgnoresNegation) => {
                Ok(self.read(thread, guard.value, Type::Pred)? != 0)
            }
            Some(guard) => self.truth(thread, guard),
        }
    }

    /// The value of a predicate.
    pub(crate) fn truth(&self, thread: &Thread, predicate: Predicate) -> Result<bool, Stop> {
        Ok((self.read(thread, predicate.value, Type::Pred)? != 0) != predicate.negated)
    }

    fn call(&self, thread: &mut Thread, function: usize, arguments: &[Place]) -> Result<(), Stop> {
        let caller = thread.frame()?;
        let mut slots = Vec::new();
        for place in arguments {
            slots.push(self.slot(caller, *place)?.to_vec());
        }
        self.enter(thread, function)?;
        let frame = thread.frame()?;
        for (index, from) in slots.iter().enumerate() {
            self.slot(frame, Place::Param(index))?.copy_from_slice(from);
        }
        Ok(())
    }

    fn slot<'f>(
        &self,
        frame: &'f mut crate::machine::Frame,
        place: Place,
    ) -> Result<&'f mut [u8], Stop> {
        let (_, at) = self.address_of(frame, place);
        let bytes = self.bytes_of(frame, place);
        let range = size(at)?..size(at + bytes)?;
        frame.param.get_mut(range).ok_or_else(|| Stop("a slot beyond the frame".into()))
    }

    fn come_back(&self, thread: &mut Thread) -> Result<(), Stop> {
        let mut ended = Self::leave(thread)?;
        if thread.frames.is_empty() {
            thread.state = State::Ended;
            return Ok(());
        }
        let frame = thread.frame()?;
        let (_, body) = self.function(frame.function)?;
        let (Op::Call { returns, .. } | Op::CallIndirect { returns, .. }) =
            &body.statements[frame.next].op
        else {
            return stop("a return to no call");
        };
        for (index, place) in returns.iter().enumerate() {
            let result = self.slot(&mut ended, Place::Return(index))?.to_vec();
            if self.setup.mutation != Some(Mutation::DropsResult) {
                self.slot(frame, *place)?.copy_from_slice(&result);
            }
        }
        frame.next += 1;
        Ok(())
    }

    fn load(
        &self,
        world: &mut World,
        thread: &mut Thread,
        space: Space,
        ty: Type,
        to: &[Option<Reg>],
        from: Address,
    ) -> Result<(), Stop> {
        let address = self.resolve(thread.frame()?, space, from);
        let count = u32::try_from(to.len()).map_err(|_| Stop("a vector without end".into()))?;
        let bytes = world.bytes(thread, space, address, ty.bytes() * count)?;
        let values: Vec<u64> = bytes.chunks(ty.bytes() as usize).map(number).collect();
        for (register, value) in to.iter().zip(values) {
            if let Some(register) = register {
                let wrong = self.setup.mutation == Some(Mutation::LoadsUnsigned);
                self.write(thread, *register, if wrong { value } else { extended(value, ty) })?;
            }
        }
        Ok(())
    }

    fn work(&self, world: &mut World, thread: &mut Thread, op: &Op) -> Result<(), Stop> {
        let (to, value) = match op {
            Op::Load { space, ty, to, from, .. } => {
                return self.load(world, thread, *space, *ty, to, *from);
            }
            Op::Store { space, ty, to, from, .. } => {
                let mut values = Vec::new();
                for operand in from {
                    values.push(self.read(thread, *operand, *ty)?);
                }
                let address = self.resolve(thread.frame()?, *space, *to);
                let count =
                    u32::try_from(from.len()).map_err(|_| Stop("a vector without end".into()))?;
                let bytes = world.bytes(thread, *space, address, ty.bytes() * count)?;
                for (chunk, value) in bytes.chunks_mut(ty.bytes() as usize).zip(values) {
                    put(chunk, value);
                }
                return Ok(());
            }
            Op::Unpack { ty, to, from } => {
                let value = self.read(thread, *from, *ty)?;
                let bits = width(*ty) / u32::try_from(to.len()).unwrap_or(1);
                for (index, register) in (0_u32..).zip(to) {
                    if let Some(register) = register {
                        self.write(thread, *register, low(value >> (index * bits), bits))?;
                    }
                }
                return Ok(());
            }
            Op::SetPredicate { .. } => return self.set_predicate(thread, op),
            Op::Carry { .. } | Op::MadCarry { .. } => return self.carry(thread, op),
            Op::Atomic { space, op, ty, to, at, first, second } => {
                let first = self.read(thread, *first, *ty)?;
                let second = second.map_or(Ok(0), |second| self.read(thread, second, *ty))?;
                let address = self.resolve(thread.frame()?, *space, *at);
                let bytes = world.bytes(thread, *space, address, ty.bytes())?;
                let old = number(bytes);
                let mut new = arithmetic::atomic(*op, *ty, old, first, second);
                if self.setup.mutation == Some(Mutation::DecrementsAtomics) {
                    new = new.wrapping_sub(1);
                }
                put(bytes, new);
                match to {
                    Some(to) => (*to, extended(old, *ty)),
                    None => return Ok(()),
                }
            }
            Op::Fence | Op::Nothing => return Ok(()),
            _ => self.value(thread, op)?,
        };
        self.write(thread, to, value)
    }

    /// Operations that make one value of others.
    fn value(&self, thread: &Thread, op: &Op) -> Result<(Reg, u64), Stop> {
        let read = |operand: Operand, ty: Type| self.read(thread, operand, ty);
        let three = |operands: &[Operand; 3], types: [Type; 3]| -> Result<[u64; 3], Stop> {
            Ok([
                read(operands[0], types[0])?,
                read(operands[1], types[1])?,
                read(operands[2], types[2])?,
            ])
        };
        let mutation = self.setup.mutation;
        Ok(match op {
            Op::Move { ty, to, from } => (*to, read(*from, *ty)?),
            Op::Pack { ty, to, from } => {
                let bits = width(*ty) / u32::try_from(from.len()).unwrap_or(1);
                let mut result = 0;
                for (index, operand) in (0_u32..).zip(from) {
                    result |= low(read(*operand, *ty)?, bits) << (index * bits);
                }
                (*to, result)
            }
            Op::ToGeneric { space, ty, to, from } => (*to, to_generic(*space, read(*from, *ty)?)),
            Op::FromGeneric { space, ty, to, from } => {
                let value = read(*from, *ty)?;
                (*to, if *space == from_generic(value).0 { from_generic(value).1 } else { value })
            }
            Op::IsSpace { space, to, from } => {
                (*to, u64::from(from_generic(read(*from, Type::U64)?).0 == *space))
            }
            Op::Convert { to_ty, from_ty, float, to, from } => {
                let value = arithmetic::convert(
                    *to_ty,
                    *from_ty,
                    self.float(*float),
                    read(*from, *from_ty)?,
                );
                (*to, extended(value, *to_ty))
            }
            Op::ConvertPair { to_ty, float, to, high, low: below } => {
                let half = if *to_ty == Type::F16x2 { Type::F16 } else { Type::BF16 };
                let each = |operand| {
                    Ok(arithmetic::convert(
                        half,
                        Type::F32,
                        self.float(*float),
                        read(operand, Type::F32)?,
                    ))
                };
                (*to, each(*high)? << 16 | each(*below)?)
            }
            Op::Unary { op, ty, float, to, from } => {
                (*to, arithmetic::unary(*op, *ty, self.float(*float), read(*from, *ty)?))
            }
            Op::Binary { op, ty, float, to, left, right } => {
                let shifts = matches!(op, Binary::Shl | Binary::Shr);
                let mut amount = read(*right, if shifts { Type::U32 } else { *ty })?;
                if shifts && mutation == Some(Mutation::ShiftWraps) {
                    amount %= u64::from(width(*ty));
                }
                (*to, arithmetic::binary(*op, *ty, self.float(*float), read(*left, *ty)?, amount))
            }
            Op::Ternary { op, ty, float, to, operands } => {
                let third = if *op == Ternary::MadWide { double(*ty) } else { *ty };
                let values = three(operands, [*ty, *ty, third])?;
                let float = self.float(*float);
                if ty.is_float() && mutation == Some(Mutation::RoundsTwice) {
                    let product = arithmetic::binary(Binary::Mul, *ty, float, values[0], values[1]);
                    return Ok((
                        *to,
                        arithmetic::binary(Binary::Add, *ty, float, product, values[2]),
                    ));
                }
                (*to, arithmetic::ternary(*op, *ty, float, values))
            }
            Op::ExtractBits { ty, to, operands } => {
                let [value, position, length] = three(operands, [*ty, Type::U32, Type::U32])?;
                let more = u64::from(mutation == Some(Mutation::ExtractsOneMore));
                (*to, arithmetic::extract_bits(*ty, value, position, length + more))
            }
            Op::InsertBits { ty, to, operands: [what, into, position, length] } => {
                let (position, length) = (read(*position, Type::U32)?, read(*length, Type::U32)?);
                (
                    *to,
                    arithmetic::insert_bits(
                        *ty,
                        read(*what, *ty)?,
                        read(*into, *ty)?,
                        position,
                        length,
                    ),
                )
            }
            Op::FindBit { ty, shift_amount, to, from } => {
                (*to, arithmetic::find_bit(*ty, *shift_amount, read(*from, *ty)?))
            }
            Op::Mask { wrap, to, start, width } => {
                let (start, width) = (read(*start, Type::U32)?, read(*width, Type::U32)?);
                (*to, arithmetic::mask(*wrap, start, width))
            }
            Op::Permute { to, operands } => {
                let [a, b, c] = three(operands, [Type::B32; 3])?;
                (*to, arithmetic::permute(a, b, c))
            }
            Op::FunnelShift { left, wrap, to, operands } => {
                let [a, b, c] = three(operands, [Type::B32; 3])?;
                (*to, arithmetic::funnel_shift(*left, *wrap, a, b, c))
            }
            Op::Logic3 { table, to, operands } => {
                let [a, b, c] = three(operands, [Type::B32; 3])?;
                (*to, arithmetic::logic3(*table, a, b, c))
            }
            Op::Dot4 { signed, to, operands } => {
                let [a, b, c] = three(operands, [Type::B32; 3])?;
                (*to, arithmetic::dot4(*signed, a, b, c))
            }
            Op::SetNumber { compare, to_ty, ty, flush, to, left, right } => {
                let holds = arithmetic::compare(
                    *compare,
                    *ty,
                    *flush,
                    read(*left, *ty)?,
                    read(*right, *ty)?,
                );
                let yes = crate::numbers::Format::of(*to_ty)
                    .map_or(u64::MAX, crate::numbers::Format::one);
                (*to, if holds { yes } else { 0 })
            }
            Op::Select { ty, to, yes, no, choose } => {
                (*to, read(if self.truth(thread, *choose)? { *yes } else { *no }, *ty)?)
            }
            Op::TestFloat { test, ty, to, from } => {
                (*to, u64::from(arithmetic::test(*test, *ty, read(*from, *ty)?)))
            }
            _ => return stop(format!("{op:?} makes no value")),
        })
    }

    /// Modifiers as the planted mistakes leave them.
    fn float(&self, mut float: gpulend_sim::ptx::ast::Float) -> gpulend_sim::ptx::ast::Float {
        match self.setup.mutation {
            Some(Mutation::KeepsSubnormals) => float.flush = false,
            Some(Mutation::NanWins) => float.keep_nan = true,
            Some(Mutation::RoundsToNearest) if float.rounding == Some(Rounding::Up) => {
                float.rounding = Some(Rounding::Nearest);
            }
            _ => {}
        }
        float
    }

    fn set_predicate(&self, thread: &mut Thread, op: &Op) -> Result<(), Stop> {
        let Op::SetPredicate { compare, ty, flush, combine, to, opposite, left, right } = op else {
            return stop("no setp");
        };
        let holds = arithmetic::compare(
            *compare,
            *ty,
            *flush,
            self.read(thread, *left, *ty)?,
            self.read(thread, *right, *ty)?,
        );
        let (mut yes, mut no) = (holds, !holds);
        if let Some((combine, with)) = combine {
            let with = self.truth(thread, *with)?;
            let both = |value: bool| match combine {
                Combine::And => value & with,
                Combine::Or => value | with,
                Combine::Xor => value ^ with,
            };
            (yes, no) = (both(yes), both(no));
        }
        if let Some(to) = to {
            self.write(thread, *to, u64::from(yes))?;
        }
        if let Some(opposite) = opposite {
            self.write(thread, *opposite, u64::from(no))?;
        }
        Ok(())
    }

    fn carry(&self, thread: &mut Thread, op: &Op) -> Result<(), Stop> {
        let lost = self.setup.mutation == Some(Mutation::DropsCarry);
        let carry_in = thread.carry && !lost;
        let (to, writes, (value, carry)) = match op {
            Op::Carry { subtract, ty, reads, writes, to, left, right } => {
                let (left, right) =
                    (self.read(thread, *left, *ty)?, self.read(thread, *right, *ty)?);
                (
                    to,
                    writes,
                    arithmetic::with_carry(*subtract, width(*ty), left, right, *reads && carry_in),
                )
            }
            Op::MadCarry { high, ty, reads, writes, to, operands: [a, b, c] } => {
                let half = if *high { Binary::MulHi } else { Binary::Mul };
                let (a, b, c) = (
                    self.read(thread, *a, *ty)?,
                    self.read(thread, *b, *ty)?,
                    self.read(thread, *c, *ty)?,
                );
                let product =
                    arithmetic::binary(half, *ty, gpulend_sim::ptx::ast::Float::default(), a, b);
                (
                    to,
                    writes,
                    arithmetic::with_carry(false, width(*ty), product, c, *reads && carry_in),
                )
            }
            _ => return stop("no carry"),
        };
        if *writes {
            thread.carry = carry;
        }
        self.write(thread, *to, value)
    }
}

/// The type of twice the width.
const fn double(ty: Type) -> Type {
    match ty {
        Type::S16 => Type::S32,
        Type::U16 => Type::U32,
        Type::S32 => Type::S64,
        _ => Type::U64,
    }
}
