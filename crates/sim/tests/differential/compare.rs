//! One program on two machines, and what differs.

use std::sync::Arc;
use std::time::Duration;

use gpulend_sim::engine::{Launch, Program, launch};
use gpulend_sim::ptx::ast::{Module, Space};

use crate::generator::{COUNTERS, Generated, Node, SCRATCH_BYTES, fill_input, stored};
use crate::generator_text::slot_bytes;
use crate::machine::{Mutation, Piece, Setup};
use crate::schedule;

/// The number of each buffer in the memory of a launch; the module's variables come after them.
const OUTPUT: usize = 1;

/// A program that was read, with its memory and parameters.
#[derive(Debug)]
pub(crate) struct Case {
    /// Its text.
    pub(crate) text: String,
    /// What the parser made of it.
    pub(crate) module: Module,
    grid: [u32; 3],
    block: [u32; 3],
    /// Shared memory beside the kernel's own.
    pub(crate) dynamic_shared: u32,
    pub(crate) checked: bool,
    params: Vec<u8>,
    variables: Vec<u64>,
    memory: Vec<Piece>,
    // The machine's own memory at the addresses of `memory`.
    real: Vec<Vec<u128>>,
}

/// What memory holds in the end, and how many instructions were executed.
#[derive(Debug)]
pub(crate) struct Outcome {
    memory: Vec<Piece>,
    /// By all threads together.
    pub(crate) executed: u64,
}

impl Outcome {
    /// What a buffer holds.
    pub(crate) fn buffer(&self, number: usize) -> &[u8] {
        &self.memory[number].bytes
    }

    /// Spoils a byte.
    pub(crate) fn change(&mut self, number: usize, at: usize, byte: u8) {
        self.memory[number].bytes[at] = byte;
    }
}

impl Case {
    /// Reads a program and gives it memory.
    ///
    /// # Errors
    ///
    /// What the parser says.
    pub(crate) fn new(program: &Generated) -> Result<Self, String> {
        let threads = program
            .block
            .iter()
            .chain(&program.grid)
            .map(|count| *count as usize)
            .product::<usize>();
        let pattern = |bytes: usize| {
            (0..bytes).map(|at| u8::try_from(at * 37 % 251).unwrap_or(0)).collect::<Vec<u8>>()
        };
        let contents = vec![
            fill_input(program.seed()),
            vec![0xcd; threads * slot_bytes()],
            pattern(threads * SCRATCH_BYTES),
            pattern(COUNTERS * 8),
        ];
        let mut case = Self::of(program.text(), program.grid, program.block, contents)?;
        case.dynamic_shared = program.dynamic_shared();
        // Code without checks is other code.
        case.checked = program.seed() % 4 != 3;
        case.params.extend([0x80, 0, 0, 0, 0, 0, 0, 0]);
        case.params.extend((-1.5e-300_f64).to_le_bytes());
        Ok(case)
    }

    /// Reads a text whose kernel takes the addresses of some buffers.
    pub(crate) fn of(
        text: String,
        grid: [u32; 3],
        block: [u32; 3],
        mut contents: Vec<Vec<u8>>,
    ) -> Result<Self, String> {
        let module = gpulend_sim::ptx::parse(&text).map_err(|error| format!("{error:?}"))?;
        let buffers = contents.len();
        for variable in module.variables.iter().filter(|variable| variable.space != Space::Shared) {
            let mut bytes = variable.initial.clone();
            bytes.resize(usize::try_from(variable.bytes).unwrap_or(0), 0);
            contents.push(bytes);
        }
        let real: Vec<Vec<u128>> =
            contents.iter().map(|bytes| vec![0; bytes.len().div_ceil(16)]).collect();
        let memory: Vec<Piece> = contents
            .into_iter()
            .zip(&real)
            .map(|(bytes, place)| Piece { base: place.as_ptr().addr() as u64, bytes })
            .collect();
        let mut own = memory[buffers..].iter().map(|piece| piece.base);
        let variables = module.variables.iter();
        let variables = variables
            .map(|v| if v.space == Space::Shared { 0 } else { own.next().unwrap_or(0) })
            .collect();
        let params: Vec<u8> =
            memory[..buffers].iter().flat_map(|piece| piece.base.to_le_bytes()).collect();
        Ok(Self {
            text,
            module,
            grid,
            block,
            dynamic_shared: 0,
            checked: true,
            params,
            variables,
            memory,
            real,
        })
    }

    /// What a buffer holds in the beginning.
    pub(crate) fn initial(&self, number: usize) -> &[u8] {
        &self.memory[number].bytes
    }

    /// Runs it on the interpreter, perhaps with a wrong rule.
    pub(crate) fn interpret(&self, mutation: Option<Mutation>) -> Result<Outcome, String> {
        self.interpret_in_order(mutation, false)
    }

    /// Runs it on the interpreter, forwards or backwards.
    pub(crate) fn interpret_in_order(
        &self,
        mutation: Option<Mutation>,
        backwards: bool,
    ) -> Result<Outcome, String> {
        let kernel =
            self.module.functions.iter().position(|function| function.entry).ok_or("no kernel")?;
        let setup = Setup {
            module: &self.module,
            kernel,
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.dynamic_shared,
            params: &self.params,
            variables: &self.variables,
            mutation,
            backwards,
        };
        let mut memory = self.memory.clone();
        let executed = schedule::run(setup, &mut memory).map_err(|stop| stop.0)?;
        Ok(Outcome { memory, executed })
    }

    /// Runs it on the engine.
    pub(crate) fn execute(&mut self) -> Result<Outcome, String> {
        for (place, piece) in self.real.iter_mut().zip(&self.memory) {
            for (word, bytes) in place.iter_mut().zip(piece.bytes.chunks(16)) {
                let mut whole = [0; 16];
                whole[..bytes.len()].copy_from_slice(bytes);
                *word = u128::from_le_bytes(whole);
            }
        }
        let program = Program::load(&self.text)
            .map_err(|error| format!("line {}: {}", error.line, error.message))?;
        let kernel = program
            .kernels()
            .iter()
            .position(|kernel| kernel.name == "kernel")
            .ok_or("the engine has no kernel")?;
        let launch = Launch {
            program: Arc::new(program),
            kernel,
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.dynamic_shared,
            params: self.params.as_slice().into(),
            variables: self.variables.clone().into(),
            checks: launch::Checks { memory: self.checked, shared: self.checked },
            limit: Duration::from_secs(20),
            cooperative: false,
        };
        let mut ranges: Vec<(u64, u64)> =
            self.memory.iter().map(|piece| (piece.base, piece.bytes.len() as u64)).collect();
        ranges.sort_unstable();
        // The engine reaches `real` through these addresses.
        let places =
            self.real.iter_mut().map(|place| place.as_mut_ptr().expose_provenance() as u64);
        if !places.eq(self.memory.iter().map(|piece| piece.base)) {
            return Err("memory has moved".into());
        }
        launch::run(&launch, launch::Reach::all(&ranges), None)
            .map_err(|fault| fault.sentence())?;
        let memory = self.real.iter().zip(&self.memory).map(|(place, piece)| {
            let bytes = std::hint::black_box(place).iter().flat_map(|word| word.to_le_bytes());
            Piece { base: piece.base, bytes: bytes.take(piece.bytes.len()).collect() }
        });
        Ok(Outcome { memory: memory.collect(), executed: 0 })
    }

    /// The first place where two outcomes differ, in words.
    pub(crate) fn difference(&self, left: &Outcome, right: &Outcome) -> Option<String> {
        // The output tells which register it was.
        let order = std::iter::once(OUTPUT)
            .chain((0..self.memory.len()).filter(|buffer| *buffer != OUTPUT));
        for buffer in order {
            let (a, b) = (&left.memory[buffer].bytes, &right.memory[buffer].bytes);
            let Some(at) = a.iter().zip(b).position(|(a, b)| a != b) else { continue };
            let eight = at / 8 * 8..(at / 8 * 8 + 8).min(a.len());
            let place = if buffer == OUTPUT {
                let thread = at / slot_bytes();
                format!("thread {thread}, register {}", stored()[at % slot_bytes() / 8].1)
            } else {
                format!("buffer {buffer}, byte {at}")
            };
            let hex = |bytes: &[u8]| {
                bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>()
            };
            return Some(format!("{place}: {} and {}", hex(&a[eight.clone()]), hex(&b[eight])));
        }
        None
    }
}

fn count(nodes: &[Node]) -> usize {
    nodes
        .iter()
        .map(|node| {
            1 + match node {
                Node::Lines(_) => 0,
                Node::If { then, otherwise, .. } => count(then) + count(otherwise),
                Node::Loop { body, .. } => count(body),
                Node::Switch { arms, .. } => arms.iter().map(|arm| count(arm)).sum(),
            }
        })
        .sum()
}

/// What is done to a program to make it smaller, by the numbers of its pieces in the order of the text.
enum Change {
    /// Some are left out.
    Drop(std::ops::Range<usize>),
    /// What is in a branch or a loop takes its place.
    Open(usize),
}

fn without(nodes: &[Node], change: &Change, number: &mut usize) -> Vec<Node> {
    let mut kept = Vec::new();
    for node in nodes {
        let own = *number;
        *number += 1;
        let node = match node {
            Node::Lines(_) => node.clone(),
            Node::If { guard, then, otherwise } => Node::If {
                guard: guard.clone(),
                then: without(then, change, number),
                otherwise: without(otherwise, change, number),
            },
            Node::Loop { times, body } => {
                Node::Loop { times: times.clone(), body: without(body, change, number) }
            }
            Node::Switch { index, arms } => Node::Switch {
                index: index.clone(),
                arms: arms.iter().map(|arm| without(arm, change, number)).collect(),
            },
        };
        match (change, node) {
            (Change::Drop(drop), _) if drop.contains(&own) => {}
            (Change::Open(open), Node::If { then, otherwise, .. }) if own == *open => {
                kept.extend(then.into_iter().chain(otherwise));
            }
            (Change::Open(open), Node::Loop { body, .. }) if own == *open => kept.extend(body),
            (Change::Open(open), Node::Switch { arms, .. }) if own == *open => {
                kept.extend(arms.into_iter().flatten())
            }
            (_, node) => kept.push(node),
        }
    }
    kept
}

/// All pieces of a program.
fn total(program: &Generated) -> usize {
    count(&program.nodes) + program.functions.iter().map(|nodes| count(nodes)).sum::<usize>()
}

/// Makes a program smaller as long as a difference stays. Operations of a part of a warp are valid only within their
/// branch: `differs` has to refuse what the interpreter cannot run.
pub(crate) fn shrink(program: &Generated, differs: impl Fn(&Generated) -> bool) -> Generated {
    let mut best = program.clone();
    let attempt = |best: &mut Generated, change: &Change| {
        let mut number = 0;
        let mut smaller = best.clone();
        smaller.nodes = without(&best.nodes, change, &mut number);
        smaller.functions =
            best.functions.each_ref().map(|nodes| without(nodes, change, &mut number));
        let better = total(&smaller) < total(best) && differs(&smaller);
        if better {
            *best = smaller;
        }
        better
    };
    let mut step = total(&best).div_ceil(2);
    while step > 0 {
        let mut at = 0;
        while at < total(&best) {
            let smaller = attempt(&mut best, &Change::Drop(at..at + step))
                || (step == 1 && attempt(&mut best, &Change::Open(at)));
            if !smaller {
                at += step;
            }
        }
        step /= 2;
    }
    best
}
