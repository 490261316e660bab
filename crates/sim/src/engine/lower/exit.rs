//! Exits that many places of a body jump to.
//!
//! Cranelift takes quadratic time for a block with very many predecessors. So each exit is a chain of nearby
//! blocks with a few predecessors each.

use cranelift_codegen::ir::{Block, InstBuilder};

use super::Lower;

/// The number of predecessors of each block.
const FEW: usize = 64;

/// A block that many places jump to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    /// The target of the next jump.
    block: Block,
    entered: usize,
}

impl Exit {
    pub(super) const fn new(block: Block) -> Self {
        Self { block, entered: 0 }
    }
}

impl Lower<'_, '_> {
    /// The exit for threads that end.
    pub(super) fn ended(&mut self) -> Block {
        self.ended = self.enter(self.ended, false);
        self.ended.block
    }

    /// The exit for launches that must end.
    pub(super) fn stopped(&mut self) -> Block {
        self.stopped = self.enter(self.stopped, true);
        self.stopped.block
    }

    /// The block after a span.
    pub(super) fn next_of(&mut self, span: usize) -> Block {
        match self.blocks.get(span + 1) {
            Some(next) => *next,
            None => self.ended(),
        }
    }

    fn enter(&mut self, exit: Exit, cold: bool) -> Exit {
        if exit.entered < FEW {
            return Exit { entered: exit.entered + 1, ..exit };
        }
        let before = self.builder.create_block();
        if cold {
            self.builder.set_cold_block(before);
        }
        self.passages.push((before, exit.block));
        Exit { block: before, entered: 1 }
    }

    /// Writes the blocks that only jump to another. They are written last, because a block must be finished
    /// first.
    pub(super) fn write_passages(&mut self) {
        for (from, to) in std::mem::take(&mut self.passages) {
            self.builder.switch_to_block(from);
            self.builder.ins().jump(to, &[]);
        }
    }
}
