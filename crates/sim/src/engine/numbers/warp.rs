//! Warp operations: values of all 32 lanes in, results of all 32 out.
//!
//! `members` are the participating lanes, one bit each. The values of the others are ignored, and their results
//! are meaningless.
#![expect(clippy::cast_possible_truncation, reason = "lanes are below 32")]

use crate::ptx::ast::{Reduce, Shuffle, Vote};

/// How many lanes a warp has.
pub const LANES: usize = 32;

fn members_of(members: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| members >> lane & 1 == 1)
}

/// The lane that a lane reads from, and whether it is in the same segment.
fn source(mode: Shuffle, lane: u32, given: u32, clamp: u32) -> (u32, bool) {
    let given = given & 31;
    let segment = clamp >> 8 & 31;
    let lowest = lane & segment;
    let bound = lowest | (clamp & 31 & !segment);
    let (from, valid) = match mode {
        Shuffle::Up => match lane.checked_sub(given) {
            Some(from) => (from, from >= bound),
            None => (lane, false),
        },
        Shuffle::Down => (lane + given, lane + given <= bound),
        Shuffle::Butterfly => (lane ^ given, lane ^ given <= bound),
        Shuffle::Index => {
            let from = lowest | (given & !segment);
            (from, from <= bound)
        }
    };
    if valid { (from, true) } else { (lane, false) }
}

/// `shfl.sync`: the values of other lanes, and one bit for each lane that read inside its segment.
///
/// `lane` and `clamp` are the second and third operand of each lane. A lane that would read from one that
/// does not participate gets its own value; PTX leaves this undefined.
#[must_use]
pub fn shuffle(
    mode: Shuffle,
    values: &[u32; LANES],
    lane: &[u32; LANES],
    clamp: &[u32; LANES],
    members: u32,
) -> ([u32; LANES], u32) {
    let mut results = *values;
    let mut inside = 0;
    for own in members_of(members) {
        let (from, valid) = source(mode, own as u32, lane[own], clamp[own]);
        inside |= u32::from(valid) << own;
        if members >> from & 1 == 1 {
            results[own] = values[from as usize];
        }
    }
    (results, inside)
}

/// `vote.sync`: 0 or 1; for a ballot, the lanes whose predicate is true.
#[must_use]
pub fn vote(mode: Vote, predicates: u32, members: u32) -> u32 {
    let yes = predicates & members;
    match mode {
        Vote::All => u32::from(yes == members),
        Vote::Any => u32::from(yes != 0),
        Vote::Uniform => u32::from(yes == 0 || yes == members),
        Vote::Ballot => yes,
    }
}

/// `match.any.sync`: for each lane those with the same value.
#[must_use]
pub fn match_any(values: &[u64; LANES], members: u32) -> [u32; LANES] {
    let mut results = [0; LANES];
    for own in members_of(members) {
        results[own] = members_of(members)
            .filter(|other| values[*other] == values[own])
            .fold(0, |mask, other| mask | 1 << other);
    }
    results
}

/// `match.all.sync`: all members and true if they have the same value, else 0 and false.
#[must_use]
pub fn match_all(values: &[u64; LANES], members: u32) -> (u32, bool) {
    let mut given = members_of(members).map(|lane| values[lane]);
    let first = given.next();
    if given.all(|value| Some(value) == first) { (members, true) } else { (0, false) }
}

/// `redux.sync`. [`Reduce::Popc`] counts the lanes whose value is not 0.
#[must_use]
pub fn redux(op: Reduce, signed: bool, values: &[u32; LANES], members: u32) -> u32 {
    let given = members_of(members).map(|lane| values[lane]);
    let signed_given = members_of(members).map(|lane| values[lane].cast_signed());
    match op {
        Reduce::Add => given.fold(0, u32::wrapping_add),
        Reduce::And => given.fold(u32::MAX, |a, b| a & b),
        Reduce::Or => given.fold(0, |a, b| a | b),
        Reduce::Xor => given.fold(0, |a, b| a ^ b),
        Reduce::Min if signed => signed_given.min().unwrap_or_default().cast_unsigned(),
        Reduce::Max if signed => signed_given.max().unwrap_or_default().cast_unsigned(),
        Reduce::Min => given.min().unwrap_or_default(),
        Reduce::Max => given.max().unwrap_or_default(),
        Reduce::Popc => given.filter(|value| *value != 0).count() as u32,
    }
}

#[cfg(test)]
mod tests;
