//! Exits that many places of a body jump to.
//!
//! For a block with very many predecessors Cranelift takes quadratic time in the length of the
//! body. So each exit is a chain of blocks with a few predecessors each, near each other.

use cranelift_codegen::ir::{Block, InstBuilder};

use super::Lower;

/// From so many places each block is entered.
const FEW: usize = 64;

/// A block that many places go to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit {
    /// Where the next place goes.
    block: Block,
    entered: usize,
}

impl Exit {
    pub(super) const fn new(block: Block) -> Self {
        Self { block, entered: 0 }
    }
}

impl Lower<'_, '_> {
    /// Where a thread that ends goes.
    pub(super) fn ended(&mut self) -> Block {
        self.ended = self.enter(self.ended, false);
        self.ended.block
    }

    /// Where code goes when the launch is to end.
    pub(super) fn stopped(&mut self) -> Block {
        self.stopped = self.enter(self.stopped, true);
        self.stopped.block
    }

    /// The block behind a span.
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

    /// Writes the blocks that only lead to another; a block that is begun cannot be left for them.
    pub(super) fn write_passages(&mut self) {
        for (from, to) in std::mem::take(&mut self.passages) {
            self.builder.switch_to_block(from);
            self.builder.ins().jump(to, &[]);
        }
    }
}
