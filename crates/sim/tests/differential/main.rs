//! The engine against a plain interpreter, on random programs.
//!
//! The interpreter follows the PTX manual and shares nothing with the engine but the tree it reads.

mod approximate;
mod arithmetic;
mod compare;
mod dump;
mod facts;
mod generator;
mod generator_float;
mod generator_integer;
mod generator_memory;
mod generator_text;
mod machine;
mod numbers;
mod programs;
mod schedule;
mod step;

use compare::{Case, shrink};
use generator::{Generated, generate};
use machine::Mutation;

/// How many instructions are compared, unless `GPULEND_FUZZ_INSTRUCTIONS` says otherwise.
const INSTRUCTIONS: u64 = 100_000;
/// How many programs are compared at least: a few with many threads would be enough instructions.
const PROGRAMS: u64 = 40;

fn wanted_instructions() -> u64 {
    std::env::var("GPULEND_FUZZ_INSTRUCTIONS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(INSTRUCTIONS)
}

/// A program on both.
struct Comparison {
    executed: u64,
    difference: Option<String>,
}

/// Compares the engine with the interpreter; fails on programs that the interpreter cannot run.
fn compare_engine(program: &Generated) -> Result<Comparison, String> {
    let mut case = Case::new(program)?;
    let expected = case.interpret(None)?;
    let difference = match case.execute() {
        Ok(found) => {
            case.difference(&expected, &found).map(|what| format!("{what} (interpreter, engine)"))
        }
        Err(why) => Some(format!("the engine: {why}")),
    };
    Ok(Comparison { executed: expected.executed, difference })
}

#[test]
fn engine_and_interpreter_agree_on_random_programs() {
    let (mut seed, mut executed) = (0, 0);
    while executed < wanted_instructions() || seed < PROGRAMS {
        let program = generate(seed);
        let comparison =
            compare_engine(&program).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        if let Some(what) = comparison.difference {
            let differs = |smaller: &Generated| {
                compare_engine(smaller).is_ok_and(|found| found.difference.is_some())
            };
            let small = shrink(&program, differs);
            let left =
                compare_engine(&small).ok().and_then(|found| found.difference).unwrap_or_default();
            panic!("seed {seed}: {what}\n\nshrunk: {left}\n\n{}", small.text());
        }
        executed += comparison.executed;
        seed += 1;
    }
    println!("{executed} instructions of {seed} programs");
}

#[test]
fn random_programs_end_and_do_not_depend_on_the_order_of_threads() {
    for seed in 0..150 {
        let program = generate(seed);
        let case = Case::new(&program)
            .unwrap_or_else(|why| panic!("seed {seed}: {why}\n{}", program.text()));
        let [forwards, backwards] = [false, true].map(|backwards| {
            let outcome = case.interpret_in_order(None, backwards);
            outcome.unwrap_or_else(|why| panic!("seed {seed}: {why}\n{}", case.text))
        });
        let difference = case.difference(&forwards, &backwards);
        assert_eq!(difference, None, "seed {seed}\n{}", case.text);
    }
}

#[test]
fn random_programs_have_all_operations() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let case = Case::new(&generate(seed)).unwrap();
        let bodies = case.module.functions.iter().filter_map(|function| function.body.as_ref());
        for statement in bodies.flat_map(|body| &body.statements) {
            let text = format!("{:?}", statement.op);
            seen.insert(text.split([' ', '(', '{']).next().unwrap().to_owned());
        }
    }
    for name in "Load Store Move Pack Unpack ToGeneric FromGeneric IsSpace Convert ConvertPair Unary Binary Ternary Carry \
                 MadCarry ExtractBits InsertBits FindBit Mask Permute FunnelShift Logic3 Dot4 SetPredicate SetNumber Select \
                 TestFloat Atomic Branch BranchTable Call Return Exit Barrier WarpSync Shuffle Vote Match Redux \
                 ActiveMask Fence Nothing"
        .split_whitespace()
    {
        assert!(seen.contains(name), "{name} does not occur; these do: {seen:?}");
    }
}

/// What a wrong rule changes.
fn mutation_differs(program: &Generated, mutation: Mutation) -> Option<String> {
    let case = Case::new(program).ok()?;
    let expected = case.interpret(None).ok()?;
    match case.interpret(Some(mutation)) {
        Ok(found) => case.difference(&expected, &found),
        Err(why) => Some(why),
    }
}

#[test]
fn every_planted_mistake_is_found() {
    for mutation in [
        Mutation::ExtractsOneMore,
        Mutation::ShiftWraps,
        Mutation::NanWins,
        Mutation::LoadsUnsigned,
        Mutation::RoundsToNearest,
        Mutation::KeepsSubnormals,
        Mutation::DropsCarry,
        Mutation::ShufflesNothing,
        Mutation::DropsResult,
        Mutation::RoundsTwice,
        Mutation::DecrementsAtomics,
        Mutation::IgnoresNegation,
    ] {
        let found = (0..100).find(|seed| mutation_differs(&generate(*seed), mutation).is_some());
        assert!(found.is_some(), "{mutation:?} was not found");
    }
}

#[test]
fn a_difference_is_shrunk_to_what_makes_it() {
    let mutation = Mutation::ExtractsOneMore;
    let differs = |program: &Generated| mutation_differs(program, mutation).is_some();
    let seed = (0..100).find(|seed| differs(&generate(*seed))).unwrap();
    let program = generate(seed);
    let small = shrink(&program, differs);
    assert!(differs(&small));
    assert!(small.text().contains("bfe."), "{}", small.text());
    assert!(small.nodes.len() * 4 < program.nodes.len(), "{}", small.text());
}
