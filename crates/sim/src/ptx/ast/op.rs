//! Instructions.

use super::{Address, Label, Operand, Place, Predicate, Reg, Space, Type};

/// How a number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To the nearest float, ties to even.
    Nearest,
    /// Towards zero.
    Zero,
    /// Down.
    Down,
    /// Up.
    Up,
    /// To the nearest integer, ties to even.
    IntegerNearest,
    /// To an integer, towards zero.
    IntegerZero,
    /// To an integer, down.
    IntegerDown,
    /// To an integer, up.
    IntegerUp,
}

/// The floating-point modifiers of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Float {
    /// `None` if the instruction has no rounding modifier.
    pub rounding: Option<Rounding>,
    /// `.ftz`: subnormal inputs and results are zeros of the same sign.
    pub flush: bool,
    /// `.sat`: the result is clamped to 0 to 1, with NaN as 0. For integers: saturating (`add.sat.s32`).
    pub saturate: bool,
    /// `.approx` or `.full`.
    pub approximate: bool,
    /// `.NaN`: `min` and `max` return NaN if an operand is NaN.
    pub keep_nan: bool,
}

/// An operation with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Unary {
    Abs,
    Neg,
    Not,
    CNot,
    Popc,
    Clz,
    Brev,
    Sqrt,
    Rcp,
    Rsqrt,
    Sin,
    Cos,
    Ex2,
    Lg2,
    Tanh,
    /// `cvt.rna.tf32.f32`: to 10 digits after the point, ties away from zero.
    ToTf32,
}

/// An operation with two operands. Shifts clamp their amount to the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Binary {
    Add,
    Sub,
    /// For integers the low half of the product, for floats the product.
    Mul,
    MulHi,
    /// The full product; the type is that of the operands.
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    CopySign,
    /// `mul24.lo`.
    Mul24,
}

/// An operation with three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Ternary {
    /// The low half of the product, plus the third operand.
    Mad,
    MadHi,
    /// The full product plus the third operand, which is twice as wide.
    MadWide,
    /// Floats, rounded once (`fma`, and `mad` of floats).
    Fma,
    /// `|a - b| + c`.
    Sad,
    /// `mad24.lo`.
    Mad24,
}

/// A comparison. Those that begin with "Un" are also true for NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Unsigned `lo ls hi hs` are given as these with an unsigned type.
    UnEq,
    UnNe,
    UnLt,
    UnLe,
    UnGt,
    UnGe,
    /// Both are numbers.
    Num,
    /// One of them is NaN.
    Nan,
}

/// How a comparison is combined with a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Combine {
    And,
    Or,
    Xor,
}

/// The test of `testp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Test {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// The kind of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Atomic {
    And,
    Or,
    Xor,
    Exch,
    /// Compares with the first operand and stores the second.
    Cas,
    Add,
    Inc,
    Dec,
    Min,
    Max,
}

/// How `shfl` finds its source lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// The kind of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// The reduction of `redux` and `bar.red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Reduce {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    /// `bar.red` only: the number of true predicates.
    Popc,
}

/// The kind of a barrier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Barrier {
    /// Nothing: `bar.sync`.
    Sync,
    /// Does not wait: `bar.arrive`.
    Arrive,
    /// Reduces a predicate over all threads: `Popc` to a number, `And` and `Or` to a predicate.
    Reduce(Reduce, Reg, Predicate),
}

/// The elements of a matrix that `mma` multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in PTX")]
pub enum Element {
    F16,
    BF16,
    /// A float of which only the highest 19 bits count.
    TF32,
    F64,
    S8,
    U8,
}

impl Element {
    /// How many of them a register has.
    #[must_use]
    pub const fn per_register(self) -> usize {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::TF32 | Self::F64 => 1,
            Self::S8 | Self::U8 => 4,
        }
    }
}

/// The shape and the types of `mma`: `rows` times `depth`, and `depth` times 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// The rows of the result; it has 8 columns.
    pub rows: usize,
    /// The columns of the first matrix, and the rows of the second.
    pub depth: usize,
    /// The elements of both matrices. Integers may be signed in one of them alone.
    pub elements: [Element; 2],
    /// The type of the sums.
    pub sum: Type,
    /// `.satfinite`: sums of integers are clamped.
    pub saturate: bool,
}

/// The memory ordering of a load or store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strength {
    /// Weak: other threads access it only after a barrier.
    #[default]
    Weak,
    /// `.volatile`: executed each time, without ordering.
    Volatile,
    /// `.relaxed`, `.acquire`, `.release`: other threads may access it concurrently, as with an atomic
    /// operation.
    Strong,
}

/// An instruction. Its types are those written after the name.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are named for what they are")]
pub enum Op {
    /// `ld`, `ldu`. Several registers for vectors.
    Load { space: Space, ty: Type, strength: Strength, to: Vec<Option<Reg>>, from: Address },
    /// `st`.
    Store { space: Space, ty: Type, strength: Strength, to: Address, from: Vec<Operand> },
    /// `mov` of one value.
    Move { ty: Type, to: Reg, from: Operand },
    /// `mov` of several registers into one; the first is the lowest.
    Pack { ty: Type, to: Reg, from: Vec<Operand> },
    /// `mov` of one register into several.
    Unpack { ty: Type, to: Vec<Option<Reg>>, from: Operand },
    /// `cvta.space`: to the generic address.
    ToGeneric { space: Space, ty: Type, to: Reg, from: Operand },
    /// `cvta.to.space`: from the generic address.
    FromGeneric { space: Space, ty: Type, to: Reg, from: Operand },
    /// `isspacep`.
    IsSpace { space: Space, to: Reg, from: Operand },
    /// `cvt`.
    Convert { to_ty: Type, from_ty: Type, float: Float, to: Reg, from: Operand },
    /// `cvt` of two floats into a pair; the second is the low half.
    ConvertPair { to_ty: Type, float: Float, to: Reg, high: Operand, low: Operand },
    /// One operand.
    Unary { op: Unary, ty: Type, float: Float, to: Reg, from: Operand },
    /// Two operands.
    Binary { op: Binary, ty: Type, float: Float, to: Reg, left: Operand, right: Operand },
    /// Three operands.
    Ternary { op: Ternary, ty: Type, float: Float, to: Reg, operands: [Operand; 3] },
    /// `add.cc`, `addc`, `sub.cc`, `subc`: with the carry.
    Carry {
        /// Whether it subtracts.
        subtract: bool,
        ty: Type,
        /// Whether the carry is read.
        reads: bool,
        /// Whether the carry is written.
        writes: bool,
        to: Reg,
        left: Operand,
        right: Operand,
    },
    /// `mad.lo.cc`, `madc.hi` and so on.
    MadCarry { high: bool, ty: Type, reads: bool, writes: bool, to: Reg, operands: [Operand; 3] },
    /// `bfe`: value, position, length.
    ExtractBits { ty: Type, to: Reg, operands: [Operand; 3] },
    /// `bfi`: value, target, position, length.
    InsertBits { ty: Type, to: Reg, operands: [Operand; 4] },
    /// `bmsk`.
    Mask { wrap: bool, to: Reg, start: Operand, width: Operand },
    /// `bfind`.
    FindBit { ty: Type, shift_amount: bool, to: Reg, from: Operand },
    /// `prmt` without mode.
    Permute { to: Reg, operands: [Operand; 3] },
    /// `shf`.
    FunnelShift { left: bool, wrap: bool, to: Reg, operands: [Operand; 3] },
    /// `lop3`.
    Logic3 { table: u8, to: Reg, operands: [Operand; 3] },
    /// `dp4a`: whether each vector is signed.
    Dot4 { signed: (bool, bool), to: Reg, operands: [Operand; 3] },
    /// `setp`, to a register and its opposite.
    SetPredicate {
        compare: Compare,
        ty: Type,
        flush: bool,
        combine: Option<(Combine, Predicate)>,
        to: Option<Reg>,
        opposite: Option<Reg>,
        left: Operand,
        right: Operand,
    },
    /// `set`, to a number: all bits, or 1.0 for floats.
    SetNumber {
        compare: Compare,
        to_ty: Type,
        ty: Type,
        flush: bool,
        to: Reg,
        left: Operand,
        right: Operand,
    },
    /// `selp`.
    Select { ty: Type, to: Reg, yes: Operand, no: Operand, choose: Predicate },
    /// `testp`.
    TestFloat { test: Test, ty: Type, to: Reg, from: Operand },
    /// `atom` and `red`.
    Atomic {
        space: Space,
        op: Atomic,
        ty: Type,
        to: Option<Reg>,
        at: Address,
        first: Operand,
        second: Option<Operand>,
    },
    /// `bra`.
    Branch { to: Label },
    /// `brx.idx`.
    BranchTable { index: Operand, to: Vec<Label> },
    /// `call` of a function of the module. Arguments and results are in `.param` variables of the body.
    Call { function: usize, returns: Vec<Place>, arguments: Vec<Place> },
    /// `call` of a function by its address. The prototype is an index into those of the body.
    CallIndirect { address: Operand, prototype: usize, returns: Vec<Place>, arguments: Vec<Place> },
    /// `ret`.
    Return,
    /// `exit`.
    Exit,
    /// `trap`, `brkpt`.
    Trap,
    /// `bar`, `barrier`.
    Barrier { kind: Barrier, id: Operand, threads: Option<Operand> },
    /// Waits for all threads of all blocks. PTX has no such instruction: it is a call of gpulend's.
    GridBarrier,
    /// `bar.warp.sync`.
    WarpSync { mask: Operand },
    /// `shfl.sync`, and `shfl`, which has no mask.
    Shuffle {
        mode: Shuffle,
        to: Reg,
        valid: Option<Reg>,
        value: Operand,
        lane: Operand,
        clamp: Operand,
        mask: Option<Operand>,
    },
    /// `vote.sync`, and `vote`, which has no mask.
    Vote { mode: Vote, to: Reg, value: Predicate, mask: Option<Operand> },
    /// `match.sync`: the lanes with the same value. With `all`, the mask if all lanes have it.
    Match { all: bool, ty: Type, to: Reg, valid: Option<Reg>, value: Operand, mask: Operand },
    /// `redux.sync`.
    Redux { op: Reduce, ty: Type, to: Reg, value: Operand, mask: Operand },
    /// `activemask`.
    ActiveMask { to: Reg },
    /// `ldmatrix`: one matrix of 8 by 8 elements of two bytes for each register; lanes give the addresses of rows.
    LoadMatrix { space: Space, transposed: bool, to: Vec<Option<Reg>>, from: Address },
    /// `mma.sync`: two matrices and what is added.
    Multiply {
        product: Product,
        to: Vec<Option<Reg>>,
        left: Vec<Operand>,
        right: Vec<Operand>,
        sum: Vec<Operand>,
    },
    /// `cp.async`, from global to shared memory. `taken`: so many bytes are read, and the rest are zeros.
    CopyAsync {
        bytes: u32,
        to: Address,
        from: Address,
        taken: Option<Operand>,
        ignore: Option<Predicate>,
    },
    /// `cp.async.commit_group`.
    CommitCopies,
    /// `cp.async.wait_group` and `cp.async.wait_all`: waits until no more than so many groups are left; `None`: for
    /// all copies, also those of no group.
    WaitCopies { left: Option<u64> },
    /// `membar`, `fence`.
    Fence,
    /// Hints: `prefetch`, `nanosleep`, `pragma`.
    Nothing,
}
