//! What a launch has: memory, threads, frames, and where everything lies.

use gpulend_sim::ptx::ast::{
    Address, Base, Body, Function, Module, Operand, Param, Place, Prototype, Reg, Space, Special,
    Type,
};

use crate::arithmetic::{literal, low, width};
use crate::numbers::{DOUBLE, SINGLE};

/// The address of the first function.
const FIRST_FUNCTION: u64 = 1000;

/// Why a launch could not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stop(pub(crate) String);

/// Stops with a reason.
pub(crate) fn stop<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop(why.into()))
}

/// Where shared memory begins among the generic addresses.
pub(crate) const SHARED_WINDOW: u64 = 1 << 60;
/// Where a thread's own memory begins among the generic addresses.
pub(crate) const LOCAL_WINDOW: u64 = 1 << 61;
/// Where parameters begin among the generic addresses.
pub(crate) const PARAM_WINDOW: u64 = 1 << 62;

/// A wrong rule, planted to see that a comparison finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// `bfe` takes one bit too many.
    ExtractsOneMore,
    /// Shifts take their amount modulo the width.
    ShiftWraps,
    /// `min` and `max` of floats let not-a-number win.
    NanWins,
    /// Loads of signed bytes and shorts do not extend the sign.
    LoadsUnsigned,
    /// Rounding up is rounding to the nearest.
    RoundsToNearest,
    /// `.ftz` is not heeded.
    KeepsSubnormals,
    /// The carry is lost.
    DropsCarry,
    /// `shfl.up` takes the lane itself.
    ShufflesNothing,
    /// A function's result is lost.
    DropsResult,
    /// Fused sums are rounded twice.
    RoundsTwice,
    /// Atomics add one too few.
    DecrementsAtomics,
    /// A guard's negation is not heeded.
    IgnoresNegation,
}

/// A piece of global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its address.
    pub(crate) base: u64,
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
}

/// What is launched.
#[derive(Clone, Debug)]
pub(crate) struct Setup<'a> {
    /// The module.
    pub(crate) module: &'a Module,
    /// The kernel's number in [`Module::functions`].
    pub(crate) kernel: usize,
    /// Blocks on each axis.
    pub(crate) grid: [u32; 3],
    /// Threads on each axis.
    pub(crate) block: [u32; 3],
    /// Shared memory beside the kernel's own.
    pub(crate) dynamic_shared: u32,
    /// The parameters.
    pub(crate) params: &'a [u8],
    /// Where the module's variables lie.
    pub(crate) variables: &'a [u64],
    /// A rule that is broken on purpose.
    pub(crate) mutation: Option<Mutation>,
    /// Whether the last block and thread come first, and threads take turns after a few instructions.
    pub(crate) backwards: bool,
}

/// Where a function's variables lie.
#[derive(Clone, Debug, Default)]
struct Layout {
    /// Of [`Body::variables`], each in its own space.
    variables: Vec<u64>,
    /// Of what it returns, in the space of parameters.
    returns: Vec<u64>,
    /// How much of its own memory a call takes.
    local: u64,
    /// How much of the space of parameters a call takes.
    param: u64,
}

/// What a launch knows of its program.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// What is launched.
    pub(crate) setup: Setup<'a>,
    shared: Vec<u64>,
    layouts: Vec<Layout>,
    /// How much shared memory a block has.
    pub(crate) shared_bytes: u64,
}

/// A function that runs.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Which.
    pub(crate) function: usize,
    /// The statement that is next.
    pub(crate) next: usize,
    /// Its registers.
    pub(crate) registers: Vec<u64>,
    /// Its parameters, results and slots for calls.
    pub(crate) param: Vec<u8>,
    local: u64,
}

/// What a thread is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It can go on.
    Ready,
    /// It stands at a barrier or an operation of its warp.
    Waiting,
    /// It has ended.
    Ended,
}

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    /// Where in its block.
    pub(crate) at: [u32; 3],
    /// The number in its block.
    pub(crate) number: u32,
    /// Which block.
    pub(crate) block: [u32; 3],
    /// What runs, the innermost last.
    pub(crate) frames: Vec<Frame>,
    /// Its own memory.
    pub(crate) local: Vec<u8>,
    /// The carry.
    pub(crate) carry: bool,
    /// What it is about.
    pub(crate) state: State,
}

/// Memory that threads share.
#[derive(Debug)]
pub(crate) struct World {
    /// The device's.
    pub(crate) global: Vec<Piece>,
    /// The block's.
    pub(crate) shared: Vec<u8>,
    /// Threads that passed a barrier with `bar.arrive`.
    pub(crate) arrived: [usize; 16],
}

impl Thread {
    /// What runs.
    pub(crate) fn frame(&mut self) -> Result<&mut Frame, Stop> {
        self.frames.last_mut().ok_or_else(|| Stop("a thread without a frame".into()))
    }
}

fn place(end: &mut u64, bytes: u64, align: u32) -> u64 {
    let at = end.next_multiple_of(u64::from(align.max(1)));
    *end = at + bytes;
    at
}

impl<'a> Plan<'a> {
    /// Lays out all variables.
    pub(crate) fn new(setup: Setup<'a>) -> Self {
        let mut end = 0;
        let mut own = |variable: &gpulend_sim::ptx::ast::Variable| {
            if variable.space == Space::Shared {
                place(&mut end, variable.bytes, variable.align)
            } else {
                0
            }
        };
        let shared: Vec<u64> = setup.module.variables.iter().map(&mut own).collect();
        let mut layouts: Vec<Layout> = Vec::new();
        for function in &setup.module.functions {
            let ends = function.params.iter().map(|param| u64::from(param.offset + param.bytes));
            let mut layout = Layout { param: ends.max().unwrap_or(0), ..Layout::default() };
            for result in &function.returns {
                layout.returns.push(place(
                    &mut layout.param,
                    u64::from(result.bytes),
                    result.align.max(16),
                ));
            }
            for variable in function.body.iter().flat_map(|body| &body.variables) {
                let at = match variable.space {
                    Space::Shared => own(variable),
                    Space::Local => {
                        place(&mut layout.local, variable.bytes, variable.align.max(16))
                    }
                    _ => place(&mut layout.param, variable.bytes, variable.align.max(16)),
                };
                layout.variables.push(at);
            }
            layouts.push(layout);
        }
        let dynamic = end.next_multiple_of(16);
        let in_shared = |variable: &gpulend_sim::ptx::ast::Variable, at: u64| {
            if variable.space == Space::Shared && variable.bytes == 0 { dynamic } else { at }
        };
        let shared =
            setup.module.variables.iter().zip(shared).map(|(v, at)| in_shared(v, at)).collect();
        for (function, layout) in setup.module.functions.iter().zip(&mut layouts) {
            let variables = function.body.iter().flat_map(|body| &body.variables);
            for (variable, at) in variables.zip(&mut layout.variables) {
                *at = in_shared(variable, *at);
            }
        }
        let shared_bytes = dynamic + u64::from(setup.dynamic_shared);
        Self { setup, shared, layouts, shared_bytes }
    }

    /// The function of a number.
    pub(crate) fn function(&self, number: usize) -> Result<(&'a Function, &'a Body), Stop> {
        let function = &self.setup.module.functions[number];
        match &function.body {
            Some(body) => Ok((function, body)),
            None => stop(format!("{} has no body", function.name)),
        }
    }

    /// The function at an address, which has the parameters and results of a prototype.
    pub(crate) fn function_at(&self, address: u64, wanted: &Prototype) -> Result<usize, Stop> {
        let lengths = |all: &[Param]| all.iter().map(|param| param.bytes).collect::<Vec<_>>();
        let number = address.checked_sub(FIRST_FUNCTION).and_then(|number| size(number).ok());
        match number.map(|number| (number, self.setup.module.functions.get(number))) {
            Some((number, Some(found)))
                if lengths(&found.params) == lengths(&wanted.params)
                    && lengths(&found.returns) == lengths(&wanted.returns) =>
            {
                Ok(number)
            }
            _ => stop(format!("{address:#x} is no function that the call fits")),
        }
    }

    /// Begins a function.
    pub(crate) fn enter(&self, thread: &mut Thread, function: usize) -> Result<(), Stop> {
        if thread.frames.len() > 100 {
            return stop("calls are nested too deep");
        }
        let (_, body) = self.function(function)?;
        let layout = &self.layouts[function];
        let local = u64::try_from(thread.local.len()).unwrap_or(0).next_multiple_of(16);
        thread.local.resize(size(local + layout.local)?, 0);
        thread.frames.push(Frame {
            function,
            next: 0,
            registers: vec![0; body.registers.len()],
            param: vec![0; size(layout.param)?],
            local,
        });
        Ok(())
    }

    /// Ends a function; gives the frame that is gone.
    pub(crate) fn leave(thread: &mut Thread) -> Result<Frame, Stop> {
        let Some(frame) = thread.frames.pop() else { return stop("a thread without a frame") };
        thread.local.truncate(size(frame.local)?);
        Ok(frame)
    }

    /// The address of a variable in its own space, and that space.
    pub(crate) fn address_of(&self, frame: &Frame, place: Place) -> (Space, u64) {
        let function = &self.setup.module.functions[frame.function];
        let layout = &self.layouts[frame.function];
        match place {
            Place::Module(number) => match self.setup.module.variables[number].space {
                Space::Shared => (Space::Shared, self.shared[number]),
                space => (space, self.setup.variables[number]),
            },
            Place::Body(number) => {
                let at = layout.variables[number];
                let space = function
                    .body
                    .as_ref()
                    .map_or(Space::Param, |body| body.variables[number].space);
                if space == Space::Local { (space, frame.local + at) } else { (space, at) }
            }
            Place::Param(number) => (Space::Param, u64::from(function.params[number].offset)),
            Place::Return(number) => (Space::Param, layout.returns[number]),
        }
    }

    /// The length of a parameter, result or slot.
    pub(crate) fn bytes_of(&self, frame: &Frame, place: Place) -> u64 {
        let function = &self.setup.module.functions[frame.function];
        match place {
            Place::Module(number) => self.setup.module.variables[number].bytes,
            Place::Body(number) => {
                function.body.as_ref().map_or(0, |body| body.variables[number].bytes)
            }
            Place::Param(number) => u64::from(function.params[number].bytes),
            Place::Return(number) => u64::from(function.returns[number].bytes),
        }
    }

    /// The address that an instruction means. A variable of another space than the instruction's is meant by its
    /// generic address.
    pub(crate) fn resolve(&self, frame: &Frame, space: Space, address: Address) -> u64 {
        let base = match address.base {
            Base::Register(Reg(number)) => frame.registers[number as usize],
            Base::Zero => 0,
            Base::Place(place) => {
                let (own, at) = self.address_of(frame, place);
                if own == space { at } else { to_generic(own, at) }
            }
        };
        base.wrapping_add_signed(address.offset)
    }

    /// The value of an operand for an instruction of a type.
    pub(crate) fn read(&self, thread: &Thread, operand: Operand, ty: Type) -> Result<u64, Stop> {
        let Some(frame) = thread.frames.last() else { return stop("a thread without a frame") };
        let value = match operand {
            Operand::Register(Reg(number)) => frame.registers[number as usize],
            Operand::Integer(value) if ty == Type::Pred => u64::from(value != 0),
            Operand::Integer(value) => value,
            Operand::Single(bits) => literal(ty, SINGLE, u64::from(bits)),
            Operand::Double(bits) => literal(ty, DOUBLE, bits),
            Operand::Special(special) => self.special(thread, special),
            Operand::AddressOf(place, offset) => {
                self.address_of(frame, place).1.wrapping_add_signed(offset)
            }
            Operand::Function(number) => FIRST_FUNCTION + number as u64,
        };
        Ok(low(value, width(ty)))
    }

    fn special(&self, thread: &Thread, special: Special) -> u64 {
        let axis = |values: [u32; 3], axis| u64::from(values[axis as usize]);
        let threads: u32 = self.setup.block.iter().product();
        let lane = thread.number % 32;
        let equal = 1_u64 << lane;
        let all = (1_u64 << 32) - 1;
        match special {
            Special::Thread(which) => axis(thread.at, which),
            Special::Threads(which) => axis(self.setup.block, which),
            Special::Block(which) => axis(thread.block, which),
            Special::Blocks(which) => axis(self.setup.grid, which),
            Special::Lane => u64::from(lane),
            Special::Warp => u64::from(thread.number / 32),
            Special::Warps => u64::from(threads.div_ceil(32)),
            Special::Processor
            | Special::Grid
            | Special::Cooperative
            | Special::Clock
            | Special::Clock64
            | Special::Timer => 0,
            Special::Processors => 1,
            Special::WarpSize => 32,
            Special::LaneEqual => equal,
            Special::LanesBelow => equal - 1,
            Special::LanesUpTo => equal | (equal - 1),
            Special::LanesAbove => all & !(equal | (equal - 1)),
            Special::LanesFrom => all & !(equal - 1),
            Special::DynamicShared => u64::from(self.setup.dynamic_shared),
            Special::TotalShared => self.shared_bytes,
        }
    }

    /// Writes a register; what does not fit falls off.
    pub(crate) fn write(&self, thread: &mut Thread, register: Reg, value: u64) -> Result<(), Stop> {
        let frame = thread.frame()?;
        let (_, body) = self.function(frame.function)?;
        let number = register.0 as usize;
        frame.registers[number] = low(value, width(body.registers[number].ty));
        Ok(())
    }
}

/// The generic address of one in a space.
pub(crate) const fn to_generic(space: Space, address: u64) -> u64 {
    match space {
        Space::Shared => SHARED_WINDOW + address,
        Space::Local => LOCAL_WINDOW + address,
        Space::Param => PARAM_WINDOW + address,
        Space::Generic | Space::Global | Space::Const => address,
    }
}

/// The space of a generic address and the address in it.
pub(crate) const fn from_generic(address: u64) -> (Space, u64) {
    match address >> 60 {
        1 => (Space::Shared, address - SHARED_WINDOW),
        2 | 3 => (Space::Local, address - LOCAL_WINDOW),
        4..=7 => (Space::Param, address - PARAM_WINDOW),
        _ => (Space::Global, address),
    }
}

/// A length as the host counts.
pub(crate) fn size(value: u64) -> Result<usize, Stop> {
    usize::try_from(value).map_err(|_| Stop("too large for the host".into()))
}

impl World {
    /// The bytes at an address.
    pub(crate) fn bytes<'w>(
        &'w mut self,
        thread: &'w mut Thread,
        space: Space,
        address: u64,
        bytes: u32,
    ) -> Result<&'w mut [u8], Stop> {
        let (space, at) =
            if space == Space::Generic { from_generic(address) } else { (space, address) };
        if at % u64::from(bytes.max(1)) != 0 {
            return stop(format!("{bytes} bytes at {address:#x} of {space:?} are misaligned"));
        }
        let (memory, at) = match space {
            Space::Shared => (&mut self.shared[..], at),
            Space::Local => (&mut thread.local[..], at),
            Space::Param => (&mut thread.frame()?.param[..], at),
            Space::Generic | Space::Global | Space::Const => {
                let holds = |piece: &&mut Piece| {
                    at.checked_sub(piece.base).is_some_and(|from| from < piece.bytes.len() as u64)
                };
                match self.global.iter_mut().find(holds) {
                    Some(piece) => {
                        let from = at - piece.base;
                        (&mut piece.bytes[..], from)
                    }
                    None => return stop(format!("{address:#x} is no memory")),
                }
            }
        };
        let from = size(at)?;
        match memory.get_mut(from..from.saturating_add(bytes as usize)) {
            Some(found) => Ok(found),
            None => stop(format!("{bytes} bytes at {address:#x} of {space:?} are out of bounds")),
        }
    }
}

/// The number that bytes hold, the lowest first.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Puts a number into bytes, the lowest first.
pub(crate) fn put(bytes: &mut [u8], value: u64) {
    for (byte, from) in bytes.iter_mut().zip(value.to_le_bytes()) {
        *byte = from;
    }
}
