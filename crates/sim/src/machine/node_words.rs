//! What a node does, in the words of `CUgraphNodeParams`.
#![forbid(unsafe_code)]

use super::graph::{Given, Step};
use super::operation::Work;
use super::{Caller, Machine, State};
use crate::bytes::{Pattern, Range, Shape};
use crate::machine::launch::Launched;
use crate::machine::memory::Found;
use crate::status::{Outcome, Status};

/// The 29 words of the union in `CUgraphNodeParams`.
pub type Words = [u64; 29];

/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
const HOST: u64 = 1;
const DEVICE: u64 = 2;
/// `CU_MEMORYTYPE_ARRAY`.
const ARRAY: u64 = 3;

/// Two numbers of 4 bytes in a word.
#[must_use]
pub fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The two numbers of 4 bytes in a word.
#[must_use]
pub fn halves(word: u64) -> [u32; 2] {
    let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
    [half(word), half(word >> 32)]
}

impl State {
    /// Describes a copy that was captured, as `CUDA_MEMCPY3D`.
    fn copy_words(&self, target: &Range, source: &Range, shape: &Shape) -> [u64; 25] {
        let mut words = [0; 25];
        let is_line = shape.height == 1 && shape.depth == 1;
        for (side, range, (pitch, slice)) in [(0, source, shape.source), (11, target, shape.target)]
        {
            if let Some((array, start)) = self.array_at(range.address()) {
                words[side + 4] = ARRAY;
                words[side + 7] = array as u64;
                for (word, number) in words[side..].iter_mut().zip(start) {
                    *word = number as u64;
                }
                continue;
            }
            let on_device = match self.memory.find(range.address()) {
                Found::Allocation(_, found) => found.kind.is_device() || found.kind.is_managed(),
                Found::Nothing | Found::Elsewhere => false,
            };
            words[side + 4] = if on_device { DEVICE } else { HOST };
            words[side + if on_device { 6 } else { 5 }] = range.address() as u64;
            if !is_line {
                words[side + 9] = pitch as u64;
                words[side + 10] = slice.checked_div(pitch).unwrap_or(0) as u64;
            }
        }
        words[22..].copy_from_slice(&[shape.width as u64, shape.height as u64, shape.depth as u64]);
        words
    }

    /// Returns the handles by which a node knows its kernel: of a function, or of a library's kernel.
    fn kernel_names(&self, given: &Given, launched: &Launched) -> (usize, usize) {
        let named = match given {
            Given::Kernel(handle) => *handle,
            _ => 0,
        };
        if self.kernels.get(named).is_some() {
            return (0, named);
        }
        let Some(module) = self.modules.get(launched.module) else { return (named, 0) };
        let number = launched.launch.kernel;
        let library = module.library.and_then(|library| self.libraries.get(library));
        match library.and_then(|library| library.kernels.get(number)) {
            Some(kernel) if named == 0 => (0, *kernel),
            _ => (module.functions.get(number).copied().unwrap_or(named), 0),
        }
    }
}

/// Describes a fill, without its context.
fn fill_words(work: &Work, words: &mut Words) {
    let Work::Fill { target, pattern, width, height, pitch } = work else { return };
    let (value, size) = match pattern {
        Pattern::Byte(value) => (u32::from(*value), 1),
        Pattern::Half(value) => (u32::from(*value), 2),
        Pattern::Word(value) => (*value, 4),
    };
    words[0] = target.address() as u64;
    words[1] = *pitch as u64;
    words[2] = pair(value, size);
    (words[3], words[4]) = (*width as u64, *height as u64);
}

/// Describes a launch, without the names of its kernel and the place of its parameters.
fn launch_words(launched: &Launched, words: &mut Words) {
    let ([x, y, z], [a, b, c]) = (launched.launch.grid, launched.launch.block);
    words[1] = pair(x, y);
    words[2] = pair(z, a);
    words[3] = pair(b, c);
    words[4] = u64::from(launched.launch.dynamic_shared);
}

impl Machine {
    /// Describes a node: its type, and the words of its parameters.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn node_words(&self, caller: &Caller, handle: usize) -> Outcome<(i32, Words)> {
        let mut state = self.lock();
        let node = state.node(caller, handle)?.clone();
        let mut words: Words = [0; 29];
        let context = node.context.unwrap_or(0) as u64;
        let mut exposed = Vec::new();
        // The word that says where `exposed` is.
        let mut pointer = None;
        match &node.step {
            Step::Work(Work::Launch(launched)) => {
                let kernels = launched.launch.program.kernels();
                let kernel = kernels.get(launched.launch.kernel);
                let start = launched.launch.params.as_ptr().expose_provenance();
                let params = kernel.into_iter().flat_map(|kernel| &kernel.params);
                exposed = params.map(|param| start + param.offset as usize).collect();
                let (function, kernel) = state.kernel_names(&node.given, launched);
                words[0] = function as u64;
                (words[7], words[8]) = (kernel as u64, context);
                launch_words(launched, &mut words);
                pointer = Some(5);
            }
            Step::Work(Work::Copy { target, source, shape }) => {
                let copy = match &node.given {
                    Given::Copy(given) => **given,
                    _ => state.copy_words(target, source, shape),
                };
                words[1] = context;
                words[2..27].copy_from_slice(&copy);
            }
            Step::Work(work @ Work::Fill { .. }) => {
                fill_words(work, &mut words);
                words[5] = context;
            }
            Step::Work(Work::Call(function)) => {
                let (address, argument) = function.parts();
                (words[0], words[1]) = (address as u64, argument as u64);
            }
            Step::Child(graph) => words[0] = *graph as u64,
            Step::Record(event) | Step::Wait(event) => words[0] = *event as u64,
            Step::Acquire(memory) => {
                let device = u32::try_from(memory.device).unwrap_or(0);
                let number = |peer: &usize| u32::try_from(*peer).unwrap_or(0);
                let peers = memory.peers.iter().flat_map(|peer| [1, number(peer), 3]);
                let list: Vec<u32> = peers.chain([0]).collect();
                let word = |two: &[u32]| pair(two[0], two.get(1).copied().unwrap_or(0));
                exposed =
                    list.chunks(2).filter_map(|two| usize::try_from(word(two)).ok()).collect();
                words[0] = pair(1, 0);
                words[1] = pair(1, device);
                pointer = Some(11);
                words[12] = memory.peers.len() as u64;
                (words[13], words[14]) = (memory.bytes as u64, memory.base as u64);
            }
            Step::Release(memory) => words[0] = memory.base as u64,
            Step::Branch(branch) => {
                exposed.clone_from(&branch.bodies);
                let count = u32::try_from(branch.bodies.len()).unwrap_or(0);
                words[0] = branch.condition.range.address() as u64;
                words[1] = pair(branch.form.number().cast_unsigned(), count);
                words[3] = context;
                pointer = Some(2);
            }
            Step::Work(Work::Write { .. } | Work::Raise { .. } | Work::Wait { .. }) => {
                return Err(Status::ERROR_NOT_SUPPORTED);
            }
            Step::Work(_) => {}
        }
        let kind = node.step.kind();
        let kept = &mut state.node(caller, handle)?.exposed;
        // The program may read what it got before, until the node is changed.
        if *kept != exposed {
            *kept = exposed;
        }
        if let Some(pointer) = pointer {
            words[pointer] = kept.as_ptr().expose_provenance() as u64;
        }
        Ok((kind, words))
    }
}
