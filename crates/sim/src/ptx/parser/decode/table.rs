//! All instructions, in alphabetical order.
#![forbid(unsafe_code)]

use super::{Decoder, arithmetic, bits, compare, control, convert, matrix, memory, warp};
use crate::ptx::ast::{Binary, Op, Ternary, Type, Unary};
use crate::ptx::error::Result;

/// Decodes an instruction with a form of its own.
type Read = for<'d, 'a> fn(&mut Decoder<'d, 'a>) -> Result<Op>;

/// The form of an instruction.
#[derive(Clone, Copy)]
pub(in crate::ptx::parser) enum Form {
    /// One operand: its types, and the floating-point modifiers that it may have.
    One(Unary, &'static [Type], &'static [&'static str]),
    /// Two operands of the instruction's type.
    Two(Binary, &'static [Type], &'static [&'static str]),
    /// Three operands of the instruction's type.
    Three(Ternary, &'static [Type], &'static [&'static str]),
    /// A form of its own.
    Own(Read),
    /// PTX that the simulated GPU does not support.
    Unsupported,
}

use Form::{One, Own, Three, Two, Unsupported};
use Type::{B16, B32, B64, BF16, BF16x2, F16, F16x2, F32, F64, Pred, S16, S32, S64, U16, U32, U64};

pub(super) const INTEGERS: &[Type] = &[U16, U32, U64, S16, S32, S64];
pub(super) const NUMBERS: &[Type] =
    &[U16, U32, U64, S16, S32, S64, F16, F16x2, BF16, BF16x2, F32, F64];
pub(super) const SIGNED: &[Type] = &[S16, S32, S64, F16, F16x2, BF16, BF16x2, F32, F64];
pub(super) const FLOATS: &[Type] = &[F16, F16x2, BF16, BF16x2, F32, F64];
pub(super) const LARGE_FLOATS: &[Type] = &[F32, F64];
const SMALL_FLOATS: &[Type] = &[F16, F16x2, BF16, BF16x2, F32];
const LOGIC: &[Type] = &[Pred, B16, B32, B64];
pub(super) const BITS: &[Type] = &[B16, B32, B64];
pub(super) const LARGE_BITS: &[Type] = &[B32, B64];
pub(super) const WORD_INTEGERS: &[Type] = &[U32, S32];
pub(super) const LARGE_INTEGERS: &[Type] = &[U32, U64, S32, S64];
const ROUNDED: &[&str] = &["rn", "rz", "rm", "rp", "ftz", "approx", "full"];

static ROWS: &[(&str, Form)] = &[
    ("abs", One(Unary::Abs, SIGNED, &["ftz"])),
    ("activemask", Own(warp::active_mask)),
    ("add", Own(arithmetic::add)),
    ("addc", Own(arithmetic::add_with_carry)),
    ("alloca", Unsupported),
    ("and", Two(Binary::And, LOGIC, &[])),
    ("applypriority", Unsupported),
    ("atom", Own(memory::atomic)),
    ("bar", Own(warp::barrier)),
    ("barrier", Own(warp::barrier)),
    ("bfe", Own(bits::extract)),
    ("bfi", Own(bits::insert)),
    ("bfind", Own(bits::find)),
    ("bmsk", Own(bits::mask)),
    ("bra", Own(control::branch)),
    ("brev", One(Unary::Brev, LARGE_BITS, &[])),
    ("brkpt", Own(control::trap)),
    ("brx", Own(control::branch_table)),
    ("call", Own(control::call)),
    ("clusterlaunchcontrol", Unsupported),
    ("clz", One(Unary::Clz, LARGE_BITS, &[])),
    ("cnot", One(Unary::CNot, BITS, &[])),
    ("copysign", Two(Binary::CopySign, LARGE_FLOATS, &[])),
    ("cos", One(Unary::Cos, &[F32], &["approx", "ftz"])),
    ("cp", Own(matrix::copy)),
    ("createpolicy", Unsupported),
    ("cvt", Own(convert::convert)),
    ("cvta", Own(convert::address)),
    ("discard", Unsupported),
    ("div", Two(Binary::Div, &[U16, U32, U64, S16, S32, S64, F32, F64], ROUNDED)),
    ("dp2a", Unsupported),
    ("dp4a", Own(bits::dot)),
    ("elect", Unsupported),
    ("ex2", One(Unary::Ex2, SMALL_FLOATS, &["approx", "ftz"])),
    ("exit", Own(control::exit)),
    ("fence", Own(memory::fence)),
    ("fma", Three(Ternary::Fma, FLOATS, &["rn", "rz", "rm", "rp", "ftz", "sat"])),
    ("fns", Unsupported),
    ("getctarank", Unsupported),
    ("griddepcontrol", Unsupported),
    ("isspacep", Own(convert::is_space)),
    ("istypep", Unsupported),
    ("ld", Own(memory::load)),
    ("ldmatrix", Own(matrix::load)),
    ("ldu", Own(memory::load)),
    ("lg2", One(Unary::Lg2, &[F32], &["approx", "ftz"])),
    ("lop3", Own(bits::logic)),
    ("mad", Own(arithmetic::mad)),
    ("mad24", Own(arithmetic::mad_24)),
    ("madc", Own(arithmetic::mad_with_carry)),
    ("mapa", Unsupported),
    ("match", Own(warp::match_lanes)),
    ("max", Two(Binary::Max, NUMBERS, &["ftz", "NaN"])),
    ("mbarrier", Unsupported),
    ("membar", Own(memory::fence)),
    ("min", Two(Binary::Min, NUMBERS, &["ftz", "NaN"])),
    ("mma", Own(matrix::multiply)),
    ("mov", Own(convert::mov)),
    ("movmatrix", Unsupported),
    ("mul", Own(arithmetic::mul)),
    ("mul24", Own(arithmetic::mul_24)),
    ("multimem", Unsupported),
    ("nanosleep", Own(control::sleep)),
    ("neg", One(Unary::Neg, SIGNED, &["ftz"])),
    ("not", One(Unary::Not, LOGIC, &[])),
    ("or", Two(Binary::Or, LOGIC, &[])),
    ("pmevent", Own(control::event)),
    ("popc", One(Unary::Popc, LARGE_BITS, &[])),
    ("prefetch", Own(memory::prefetch)),
    ("prefetchu", Own(memory::prefetch)),
    ("prmt", Own(bits::permute)),
    ("rcp", One(Unary::Rcp, LARGE_FLOATS, ROUNDED)),
    ("red", Own(memory::reduce)),
    ("redux", Own(warp::reduce)),
    ("rem", Two(Binary::Rem, INTEGERS, &[])),
    ("ret", Own(control::ret)),
    ("rsqrt", One(Unary::Rsqrt, LARGE_FLOATS, &["approx", "ftz"])),
    ("sad", Three(Ternary::Sad, INTEGERS, &[])),
    ("selp", Own(compare::select)),
    ("set", Own(compare::set_number)),
    ("setmaxnreg", Unsupported),
    ("setp", Own(compare::set_predicate)),
    ("shf", Own(bits::funnel_shift)),
    ("shfl", Own(warp::shuffle)),
    ("shl", Own(bits::shift_left)),
    ("shr", Own(bits::shift_right)),
    ("sin", One(Unary::Sin, &[F32], &["approx", "ftz"])),
    ("slct", Unsupported),
    ("sqrt", One(Unary::Sqrt, LARGE_FLOATS, ROUNDED)),
    ("st", Own(memory::store)),
    ("stackrestore", Unsupported),
    ("stacksave", Unsupported),
    ("stmatrix", Unsupported),
    ("sub", Own(arithmetic::sub)),
    ("subc", Own(arithmetic::subtract_with_carry)),
    ("suld", Unsupported),
    ("suq", Unsupported),
    ("sured", Unsupported),
    ("sust", Unsupported),
    ("szext", Unsupported),
    ("tanh", One(Unary::Tanh, SMALL_FLOATS, &["approx"])),
    ("tcgen05", Unsupported),
    ("tensormap", Unsupported),
    ("testp", Own(compare::test)),
    ("tex", Unsupported),
    ("tld4", Unsupported),
    ("trap", Own(control::trap)),
    ("txq", Unsupported),
    ("vabsdiff", Unsupported),
    ("vabsdiff2", Unsupported),
    ("vabsdiff4", Unsupported),
    ("vadd", Unsupported),
    ("vadd2", Unsupported),
    ("vadd4", Unsupported),
    ("vavrg2", Unsupported),
    ("vavrg4", Unsupported),
    ("vmad", Unsupported),
    ("vmax", Unsupported),
    ("vmax2", Unsupported),
    ("vmax4", Unsupported),
    ("vmin", Unsupported),
    ("vmin2", Unsupported),
    ("vmin4", Unsupported),
    ("vote", Own(warp::vote)),
    ("vset", Unsupported),
    ("vset2", Unsupported),
    ("vset4", Unsupported),
    ("vshl", Unsupported),
    ("vshr", Unsupported),
    ("vsub", Unsupported),
    ("vsub2", Unsupported),
    ("vsub4", Unsupported),
    ("wgmma", Unsupported),
    ("wmma", Unsupported),
    ("xor", Two(Binary::Xor, LOGIC, &[])),
];

/// Finds an instruction by its name.
pub(super) fn find(name: &str) -> Option<Form> {
    let place = ROWS.binary_search_by_key(&name, |row| row.0).ok()?;
    ROWS.get(place).map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_no_name_comes_twice() {
        assert!(ROWS.iter().zip(ROWS.iter().skip(1)).all(|(one, next)| one.0 < next.0));
    }
}
