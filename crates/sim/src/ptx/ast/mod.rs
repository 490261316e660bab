//! The syntax tree: names are resolved, types are checked, positions are kept.
//!
//! Registers, labels, variables, parameters and functions are indices into the tables of their function or
//! module.
#![forbid(unsafe_code)]

mod op;

use std::collections::BTreeMap;

pub use op::{
    Atomic, Barrier, Binary, Combine, Compare, Element, Float, Op, Product, Reduce, Rounding,
    Shuffle, Strength, Ternary, Test, Unary, Vote,
};

/// A module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// The PTX version, for instance `(6, 3)`.
    pub version: (u32, u32),
    /// The target: 75 for `sm_75`.
    pub target: u32,
    /// Source files by their number in `.loc`.
    pub files: BTreeMap<u32, String>,
    /// `.global`, `.const` and `.shared` variables of the module.
    pub variables: Vec<Variable>,
    /// Kernels and functions, with and without body.
    pub functions: Vec<Function>,
}

/// The visibility of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// Only in the module.
    #[default]
    Private,
    /// Everywhere (`.visible`, `.common`).
    Visible,
    /// Everywhere, unless another definition is there (`.weak`).
    Weak,
    /// Defined elsewhere.
    Extern,
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Generic: the address decides.
    Generic,
    /// Device memory.
    Global,
    /// Constant memory.
    Const,
    /// Shared memory of a block.
    Shared,
    /// Local memory of a thread.
    Local,
    /// Parameters of a kernel or a function.
    Param,
}

/// A type of an instruction, a register or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A predicate.
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
    /// The size of a value in memory; a predicate takes one byte.
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

    /// Whether it is a floating-point type.
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
    /// Alignment: a power of two, at least the type's own.
    pub align: u32,
    /// Its size; 0 for `extern .shared x[]`, whose size the launch sets.
    pub bytes: u64,
    /// Its initial bytes. If shorter than `bytes`, the rest is zero.
    pub initial: Vec<u8>,
    /// Addresses in its initial value.
    pub addresses: Vec<AddressOf>,
    /// Its visibility.
    pub linkage: Linkage,
    /// The line in the PTX text.
    pub line: u32,
}

/// An address in a variable's initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressOf {
    /// Its offset in the variable. It takes eight bytes.
    pub at: u64,
    /// What has the address.
    pub of: Named,
    /// The offset that is added.
    pub addend: i64,
    /// Whether it is the generic address rather than one in the variable's own space.
    pub generic: bool,
}

/// What the address of an initial value is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Of [`Module::variables`].
    Variable(usize),
    /// Of [`Module::functions`].
    Function(usize),
}

/// A parameter of a kernel or function, or a function's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub ty: Type,
    /// Alignment: a power of two.
    pub align: u32,
    /// Its size.
    pub bytes: u32,
    /// Its offset among the kernel's parameters, aligned. For functions too, from 0.
    pub offset: u32,
}

/// A kernel or a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Whether it is a kernel.
    pub entry: bool,
    /// Its visibility.
    pub linkage: Linkage,
    /// Its results.
    pub returns: Vec<Param>,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The maximum block size (`.maxntid`), or the exact one (`.reqntid`).
    pub max_threads: Option<[u32; 3]>,
    /// Whether `max_threads` came from `.reqntid`.
    pub exact_threads: bool,
    /// Its body; a declaration has none.
    pub body: Option<Body>,
    /// The line in the PTX text.
    pub line: u32,
}

/// A register of a function: an index into [`Body::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// A label of a function: an index into [`Body::labels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

/// The body of a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// Its registers. A name declared in two scopes is two registers.
    pub registers: Vec<Register>,
    /// `.local`, `.shared` and `.param` variables of all its scopes.
    pub variables: Vec<Variable>,
    /// For each label, the index of the statement that follows it; at the end of the body, the number of
    /// statements.
    pub labels: Vec<usize>,
    /// The statements, in order.
    pub statements: Vec<Statement>,
    /// The prototypes of its indirect calls.
    pub prototypes: Vec<Prototype>,
}

/// The parameters and results of the functions that an indirect call may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// The results.
    pub returns: Vec<Param>,
    /// The parameters.
    pub params: Vec<Param>,
}

/// A register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name, for instance `%r12`.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// The location of a statement in the user's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The file's number.
    pub file: u32,
    /// The line, from 1; 0 if unknown.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The statement is executed only if this is true.
    pub guard: Option<Predicate>,
    /// The instruction.
    pub op: Op,
    /// The line in the PTX text.
    pub line: u32,
    /// The location in the user's source.
    pub source: Option<Source>,
}

/// A predicate that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicate {
    /// A register, or an integer; anything but 0 is true.
    pub value: Operand,
    /// Whether it is negated.
    pub negated: bool,
}

/// A variable, parameter or result by its index in a table.
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
    /// A register.
    Register(Reg),
    /// An integer, in two's complement. Instructions use the low bits they need.
    Integer(u64),
    /// The bits of a float, written `0f…`. An instruction on doubles converts it.
    Single(u32),
    /// The bits of a double, written `0d…` or as a decimal. An instruction on floats converts it.
    Double(u64),
    /// A special register.
    Special(Special),
    /// The address of a variable in its own space, plus an offset in bytes.
    AddressOf(Place, i64),
    /// The address of a function: an index into [`Module::functions`].
    Function(usize),
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Address {
    /// Its base.
    pub base: Base,
    /// The offset in bytes.
    pub offset: i64,
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A register; 32-bit ones are zero-extended.
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
    /// `%tid`: the thread's index.
    Thread(Axis),
    /// `%ntid`: the block size.
    Threads(Axis),
    /// `%ctaid`: the block's index.
    Block(Axis),
    /// `%nctaid`: the grid size.
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
    /// Whether the launch is cooperative. PTX has no such register: it is a call of gpulend's.
    Cooperative,
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
    /// `%clock`, 32 bits.
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
