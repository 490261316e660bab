//! Barriers, shuffles, votes and matches.
#![forbid(unsafe_code)]

use super::Decoder;
use super::table::LARGE_BITS;
use crate::ptx::ast::{Barrier, Op, Operand, Reduce, Reg, Shuffle, Type, Vote};
use crate::ptx::error::Result;

/// From this target on, lanes of a warp run by themselves, and what they do together names them.
const INDEPENDENT_LANES: u32 = 70;
const SHUFFLES: &[(&str, Shuffle)] = &[
    ("up", Shuffle::Up),
    ("down", Shuffle::Down),
    ("bfly", Shuffle::Butterfly),
    ("idx", Shuffle::Index),
];
const VOTES: &[(&str, Vote)] =
    &[("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)];
const REDUCES: &[(&str, Reduce)] = &[
    ("add", Reduce::Add),
    ("min", Reduce::Min),
    ("max", Reduce::Max),
    ("and", Reduce::And),
    ("or", Reduce::Or),
    ("xor", Reduce::Xor),
];
const BARRIER_REDUCES: &[(&str, Reduce)] =
    &[("popc", Reduce::Popc), ("and", Reduce::And), ("or", Reduce::Or)];

impl Decoder<'_, '_> {
    /// The mask of the lanes that take part, behind the other operands. Without `.sync` there is none: such forms are
    /// taken only in code for processors before `sm_70`. PTX had them for `sm_70` too until version 6.4.
    fn mask(&mut self, others: usize) -> Result<Option<Operand>> {
        if self.flag("sync") {
            self.arity(others + 1, others + 1)?;
            return Ok(Some(self.read(others, Type::B32)?));
        }
        if self.module.target >= INDEPENDENT_LANES {
            return Err(self.unsupported());
        }
        self.arity(others, others)?;
        Ok(None)
    }

    /// `d` or `d|p`.
    fn result_and_validity(&mut self) -> Result<(Reg, Option<Reg>)> {
        let (to, valid) = self.write_pair(0, Type::B32)?;
        let to = to.ok_or_else(|| self.wrong("wants a register for its result"))?;
        Ok((to, valid))
    }
}

/// `bar` and `barrier`.
pub(super) fn barrier(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    if decoder.flag("warp") {
        decoder.must("sync")?;
        decoder.no_type()?;
        decoder.arity(1, 1)?;
        return Ok(Op::WarpSync { mask: decoder.read(0, Type::B32)? });
    }
    decoder.ignore(&["cta", "aligned"]);
    if decoder.flag("sync") {
        decoder.no_type()?;
        decoder.arity(1, 2)?;
        let id = decoder.read(0, Type::B32)?;
        let threads =
            if decoder.arguments.len() > 1 { Some(decoder.read(1, Type::B32)?) } else { None };
        return Ok(Op::Barrier { kind: Barrier::Sync, id, threads });
    }
    if decoder.flag("arrive") {
        decoder.no_type()?;
        decoder.arity(2, 2)?;
        let (id, threads) = (decoder.read(0, Type::B32)?, Some(decoder.read(1, Type::B32)?));
        return Ok(Op::Barrier { kind: Barrier::Arrive, id, threads });
    }
    decoder.must("red")?;
    let op = decoder.demand(BARRIER_REDUCES)?;
    let ty = decoder.ty(if op == Reduce::Popc { &[Type::U32] } else { &[Type::Pred] })?;
    decoder.arity(3, 4)?;
    let to = decoder.write(0, ty)?;
    let id = decoder.read(1, Type::B32)?;
    let last = decoder.arguments.len() - 1;
    let threads = if last == 3 { Some(decoder.read(2, Type::B32)?) } else { None };
    let kind = Barrier::Reduce(op, to, decoder.predicate(last)?);
    Ok(Op::Barrier { kind, id, threads })
}

/// `shfl.sync` and `shfl`.
pub(super) fn shuffle(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let mask = decoder.mask(4)?;
    let mode = decoder.demand(SHUFFLES)?;
    decoder.ty(&[Type::B32])?;
    let (to, valid) = decoder.result_and_validity()?;
    let value = decoder.read(1, Type::B32)?;
    let (lane, clamp) = (decoder.read(2, Type::B32)?, decoder.read(3, Type::B32)?);
    Ok(Op::Shuffle { mode, to, valid, value, lane, clamp, mask })
}

/// `vote.sync` and `vote`.
pub(super) fn vote(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let mask = decoder.mask(2)?;
    let mode = decoder.demand(VOTES)?;
    let ty = decoder.ty(if mode == Vote::Ballot { &[Type::B32] } else { &[Type::Pred] })?;
    let to = decoder.write(0, ty)?;
    Ok(Op::Vote { mode, to, value: decoder.predicate(1)?, mask })
}

/// `match.sync`.
pub(super) fn match_lanes(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.must("sync")?;
    let all = decoder.demand(&[("any", false), ("all", true)])?;
    let ty = decoder.ty(LARGE_BITS)?;
    decoder.arity(3, 3)?;
    let (to, valid) = decoder.result_and_validity()?;
    if valid.is_some() && !all {
        return Err(decoder.wrong("has one result"));
    }
    Ok(Op::Match {
        all,
        ty,
        to,
        valid,
        value: decoder.read(1, ty)?,
        mask: decoder.read(2, Type::B32)?,
    })
}

/// `redux.sync`.
pub(super) fn reduce(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.must("sync")?;
    let op = decoder.demand(REDUCES)?;
    let bits = matches!(op, Reduce::And | Reduce::Or | Reduce::Xor);
    let ty = decoder.ty(if bits { &[Type::B32] } else { &[Type::U32, Type::S32] })?;
    decoder.arity(3, 3)?;
    let to = decoder.write(0, ty)?;
    Ok(Op::Redux { op, ty, to, value: decoder.read(1, ty)?, mask: decoder.read(2, Type::B32)? })
}

/// `activemask`.
pub(super) fn active_mask(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.ty(&[Type::B32])?;
    decoder.arity(1, 1)?;
    Ok(Op::ActiveMask { to: decoder.write(0, Type::B32)? })
}
