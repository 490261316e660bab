//! Where registers are kept: in Cranelift values, or in memory.
//!
//! Values make fast code. But Cranelift describes each live value at each block, which takes quadratic time
//! in the length of the body. For bodies that would take too long, all registers are in memory.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F64, I64};
use cranelift_codegen::ir::{self, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value};
use cranelift_frontend::{FunctionBuilder, Variable};

use super::{Lower, OURS, SAVED};
use crate::engine::graph::{Graph, Live};
use crate::ptx::ast::{Body, Reg};

/// A body up to this many statements always compiles quickly.
const SMALL: usize = 1000;
/// The highest pressure, as [`Graph::pressure`] counts it, at which values are used.
const MOST_PRESSURE: usize = 8 << 20;

/// The most backward branches at which values are used: each loop header has a value for every register that
/// changes.
const MOST_LOOPS: usize = 1000;

/// The usual maximum of blocks for a statement.
const BLOCKS: usize = 3;
/// The most block-register pairs at which values are used, not counting registers of a single span.
const MOST_PLACES: usize = 64 << 20;

/// Where registers are kept.
pub(super) enum Home {
    /// In values, one for each.
    Values(Vec<Place>),
    /// In the thread's record, after its fields.
    Record,
    /// On the stack.
    Stack(StackSlot),
}

/// How a register is kept in values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// Only one span uses it: the value written last, if any.
    Span(Option<Value>),
    /// Its value depends on the path taken.
    Anywhere(Variable),
}

impl Place {
    /// Places for all registers. Cranelift keeps a list of all blocks for each variable, so there should be
    /// few.
    pub(super) fn all(
        builder: &mut FunctionBuilder<'_>,
        graph: &Graph,
        body: &Body,
        holders: &[ir::Type],
    ) -> Vec<Self> {
        let in_span = graph.in_one_span(body);
        let place = |(ty, in_span): (&ir::Type, bool)| match in_span {
            true => Self::Span(None),
            false => Self::Anywhere(builder.declare_var(*ty)),
        };
        holders.iter().zip(in_span).map(place).collect()
    }
}

/// The live registers of each span, and those live before the next wait if threads wait. `None` if registers
/// must be in memory.
pub(super) fn held(graph: &Graph, body: &Body, waits: bool) -> Option<[Live; 2]> {
    if !waits && body.statements.len() <= SMALL {
        return Some(Default::default());
    }
    let blocks = body.statements.len().saturating_mul(BLOCKS);
    let everywhere = graph.in_one_span(body).into_iter().filter(|one| !one).count();
    if graph.loops(body) > MOST_LOOPS || everywhere.saturating_mul(blocks) > MOST_PLACES {
        return None;
    }
    let live = graph.live(body, true).filter(|live| graph.pressure(body, live) <= MOST_PRESSURE)?;
    let soon = if waits { graph.live(body, false)? } else { Live::default() };
    Some([live, soon])
}

/// Allocates registers on the stack. They are zero before their first write.
pub(super) fn on_the_stack(builder: &mut FunctionBuilder<'_>, registers: usize) -> Home {
    let bytes = (registers.max(1) * 8) as u32;
    let slot =
        builder.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3));
    let (head, after) = (builder.create_block(), builder.create_block());
    let place = builder.declare_var(I64);
    let start = builder.ins().stack_addr(I64, slot, 0);
    let end = builder.ins().iadd_imm_u(start, i64::from(bytes));
    builder.def_var(place, start);
    builder.ins().jump(head, &[]);
    builder.switch_to_block(head);
    let here = builder.use_var(place);
    let zero = builder.ins().iconst(I64, 0);
    builder.ins().store(OURS, zero, here, 0);
    let next = builder.ins().iadd_imm_u(here, 8);
    builder.def_var(place, next);
    let more = builder.ins().icmp(IntCC::UnsignedLessThan, next, end);
    builder.ins().brif(more, head, &[], after, &[]);
    builder.switch_to_block(after);
    Home::Stack(slot)
}

impl Lower<'_, '_> {
    /// The value of a register, in the type that holds it.
    pub(super) fn register(&mut self, register: Reg) -> Value {
        let index = register.0 as usize;
        let ty = self.holders[index];
        match &self.home {
            Home::Values(places) => match places[index] {
                Place::Anywhere(variable) => self.builder.use_var(variable),
                Place::Span(Some(value)) => value,
                // It is written before it is read.
                Place::Span(None) => self.zero(ty),
            },
            Home::Record => self.kept(ty, place(index)),
            Home::Stack(slot) => self.builder.ins().stack_load(I64, ty, *slot, (index * 8) as i32),
        }
    }

    /// Sets a register, in the type that holds it.
    pub(super) fn set_register(&mut self, register: Reg, value: Value) {
        let index = register.0 as usize;
        match &mut self.home {
            Home::Values(places) => {
                match &mut places[index] {
                    Place::Anywhere(variable) => self.builder.def_var(*variable, value),
                    Place::Span(held) => *held = Some(value),
                }
                // Registers that outlive a wait are saved when written: most are written once and outlive
                // many waits.
                if let Some(slot) = self.slots.get(&register) {
                    self.keep(value, *slot);
                }
            }
            Home::Record => self.keep(value, place(index)),
            Home::Stack(slot) => {
                let slot = *slot;
                self.builder.ins().stack_store(I64, value, slot, (index * 8) as i32);
            }
        }
    }

    /// Restores a register after a wait.
    pub(super) fn take_up(&mut self, register: Reg) {
        let Some(slot) = self.slots.get(&register).copied() else { return };
        let value = self.kept(self.holders[register.0 as usize], slot);
        if let Home::Values(places) = &self.home
            && let Place::Anywhere(variable) = places[register.0 as usize]
        {
            self.builder.def_var(variable, value);
        }
    }

    fn zero(&mut self, ty: ir::Type) -> Value {
        match ty {
            F32 => self.builder.ins().f32const(0.0),
            F64 => self.builder.ins().f64const(0.0),
            _ => self.builder.ins().iconst(ty, 0),
        }
    }

    /// The number of saved registers in a record, without the carry flag.
    pub(super) fn saved_registers(&self) -> usize {
        match self.home {
            Home::Record => self.holders.len(),
            Home::Values(_) | Home::Stack(_) => self.slots.len(),
        }
    }

    /// The number of saved values in a record.
    pub(super) fn saved(&self) -> usize {
        self.saved_registers() + usize::from(self.carry_slot.is_some())
    }
}

/// The offset of a register in a record.
const fn place(index: usize) -> i32 {
    (SAVED + 8 * index) as i32
}
