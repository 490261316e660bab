//! The tree that the parser returns: names are resolved, types exist, positions are kept.
//!
//! Registers, labels, variables, parameters and functions are numbers into the tables of their function or module.
#![forbid(unsafe_code)]

mod op;

use std::collections::BTreeMap;

pub use op::{
    Atomic, Barrier, Binary, Combine, Compare, Float, Op, Reduce, Rounding, Shuffle, Strength,
    Ternary, Test, Unary, Vote,
};

/// A module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// The language's version, as 6, 3.
    pub version: (u32, u32),
    /// The processor it was made for: 75 for `sm_75`.
    pub target: u32,
    /// Source files by their number in `.loc`.
    pub files: BTreeMap<u32, String>,
    /// `.global`, `.const` and `.shared` variables of the module.
    pub variables: Vec<Variable>,
    /// Kernels and functions, with and without body.
    pub functions: Vec<Function>,
}

/// Who can see a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// The module alone.
    #[default]
    Private,
    /// Everyone (`.visible`, `.weak`, `.common`).
    Visible,
    /// It is defined elsewhere.
    Extern,
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Generic: the address decides which of the others.
    Generic,
    /// The device's.
    Global,
    /// The device's, read only.
    Const,
    /// A block's.
    Shared,
    /// A thread's.
    Local,
    /// A kernel's or a function's parameters.
    Param,
}

/// A type of an instruction, a register or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A truth value.
    Pred,
    /// 8 bits.
    B8,
    /// 16 bits.
    B16,
    /// 32 bits.
    B32,
    /// 64 bits.
    B64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 8 bits.
    S8,
    /// Signed, 16 bits.
    S16,
    /// Signed, 32 bits.
    S32,
    /// Signed, 64 bits.
    S64,
    /// Half.
    F16,
    /// Two halves.
    F16x2,
    /// bfloat16.
    BF16,
    /// Two bfloat16.
    BF16x2,
    /// Float.
    F32,
    /// Double.
    F64,
}

impl Type {
    /// How many bytes a value takes in memory; a truth value takes one.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::BF16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::F16x2 | Self::BF16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Whether it is a signed integer.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Whether it is a number with a point.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F16x2 | Self::BF16 | Self::BF16x2 | Self::F32 | Self::F64)
    }
}

/// A variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its state space. `Param` for the slots of a call.
    pub space: Space,
    /// The type of its elements.
    pub ty: Type,
    /// A power of two, at least the type's own.
    pub align: u32,
    /// Its length; 0 for `extern .shared x[]`, which has what the launch gives.
    pub bytes: u64,
    /// What it begins with; shorter than `bytes` if the rest is zeros.
    pub initial: Vec<u8>,
    /// Addresses that belong into it.
    pub addresses: Vec<AddressOf>,
    /// Who can see it.
    pub linkage: Linkage,
    /// The line in the PTX text.
    pub line: u32,
}

/// An address in what a variable begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressOf {
    /// Where in the variable, in bytes. It takes eight.
    pub at: u64,
    /// The module's variable whose address it is.
    pub variable: usize,
    /// What is added to it.
    pub addend: i64,
    /// Whether the generic address is meant, rather than that of the variable's own space.
    pub generic: bool,
}

/// A parameter of a kernel or function, or what a function returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub ty: Type,
    /// A power of two.
    pub align: u32,
    /// Its length.
    pub bytes: u32,
    /// Its offset among the kernel's parameters, each with its alignment. For functions too, from 0.
    pub offset: u32,
}

/// A kernel or a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Whether it is a kernel.
    pub entry: bool,
    /// Who can see it.
    pub linkage: Linkage,
    /// What it returns.
    pub returns: Vec<Param>,
    /// What it takes.
    pub params: Vec<Param>,
    /// The most threads of a block on each axis (`.maxntid`), or just so many (`.reqntid`).
    pub max_threads: Option<[u32; 3]>,
    /// Whether `max_threads` came from `.reqntid`.
    pub exact_threads: bool,
    /// What it does; a declaration has none.
    pub body: Option<Body>,
    /// The line in the PTX text.
    pub line: u32,
}

/// A register of a function: a number into [`Body::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// A label of a function: a number into [`Body::labels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

/// What a function does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// Its registers. Names that occur in two scopes are two registers.
    pub registers: Vec<Register>,
    /// `.local`, `.shared` and `.param` variables of all its scopes.
    pub variables: Vec<Variable>,
    /// For each label the number of the statement it stands before; at the end of the body that is their count.
    pub labels: Vec<usize>,
    /// The statements, in order.
    pub statements: Vec<Statement>,
}

/// A register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name, as `%r12`.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// Where in the user's source a statement comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The file's number.
    pub file: u32,
    /// The line, from 1; 0 where the compiler knows none.
    pub line: u32,
    /// The column, from 1; 0 where the compiler knows none.
    pub column: u32,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// It is done only where this holds.
    pub guard: Option<Predicate>,
    /// What is done.
    pub op: Op,
    /// The line in the PTX text.
    pub line: u32,
    /// The line in the user's text.
    pub source: Option<Source>,
}

/// A truth value that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicate {
    /// A register, or an integer: all but 0 is true.
    pub value: Operand,
    /// Whether its opposite is meant.
    pub negated: bool,
}

/// A variable, parameter or return value by its place in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Of [`Module::variables`].
    Module(usize),
    /// Of [`Body::variables`].
    Body(usize),
    /// Of [`Function::params`].
    Param(usize),
    /// Of [`Function::returns`].
    Return(usize),
}

/// A value that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// Of a register.
    Register(Reg),
    /// An integer; a negative one as its two's complement. Instructions take the low bits they need.
    Integer(u64),
    /// The bits of a float, written `0f…`. An instruction on doubles takes its value.
    Single(u32),
    /// The bits of a double, written `0d…` or as a decimal. An instruction on floats takes its value.
    Double(u64),
    /// Of a special register.
    Special(Special),
    /// The address of a variable in its own space, plus a number of bytes.
    AddressOf(Place, i64),
}

/// Where memory is read or written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Address {
    /// From where.
    pub base: Base,
    /// Bytes from there.
    pub offset: i64,
}

/// What an address is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// What a register holds; of 32 bits it is extended with zeros.
    Register(Reg),
    /// A variable.
    Place(Place),
    /// Nothing: the offset is the address.
    Zero,
}

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// The first.
    X,
    /// The second.
    Y,
    /// The third.
    Z,
}

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// `%tid`: the thread in its block.
    Thread(Axis),
    /// `%ntid`: threads of a block.
    Threads(Axis),
    /// `%ctaid`: the block.
    Block(Axis),
    /// `%nctaid`: blocks.
    Blocks(Axis),
    /// `%laneid`.
    Lane,
    /// `%warpid`.
    Warp,
    /// `%nwarpid`.
    Warps,
    /// `%smid`.
    Processor,
    /// `%nsmid`.
    Processors,
    /// `%gridid`.
    Grid,
    /// `WARP_SZ`, which is 32.
    WarpSize,
    /// `%lanemask_eq`.
    LaneEqual,
    /// `%lanemask_lt`.
    LanesBelow,
    /// `%lanemask_le`.
    LanesUpTo,
    /// `%lanemask_gt`.
    LanesAbove,
    /// `%lanemask_ge`.
    LanesFrom,
    /// `%clock`, of 32 bits.
    Clock,
    /// `%clock64`.
    Clock64,
    /// `%globaltimer`, in nanoseconds.
    Timer,
    /// `%dynamic_smem_size`.
    DynamicShared,
    /// `%total_smem_size`.
    TotalShared,
}
