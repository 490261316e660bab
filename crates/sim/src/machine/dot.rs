//! Drawings of graphs, in the language of Graphviz.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::graph::Step;
use super::operation::Work;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// `CU_GRAPH_DEBUG_DOT_FLAGS_*`.
const FLAGS: u32 = (1 << 17) - 1;
/// `VERBOSE` and `HANDLES`.
const HANDLES: u32 = 1 | 1 << 10;

/// Returns the name of a step.
fn words(step: &Step) -> String {
    match step {
        Step::Work(Work::Launch(launched)) => {
            let kernels = launched.launch.program.kernels();
            let name = kernels.get(launched.launch.kernel).map_or("", |kernel| &kernel.name);
            let (grid, block) = (launched.launch.grid, launched.launch.block);
            format!("KERNEL\\n{name}\\ngrid {grid:?} block {block:?}")
        }
        Step::Work(Work::Copy { shape, .. }) => {
            format!("MEMCPY\\n{} x {} x {} bytes", shape.width, shape.height, shape.depth)
        }
        Step::Work(Work::Fill { width, height, .. }) => format!("MEMSET\\n{width} x {height}"),
        Step::Work(Work::Call(_)) => "HOST".to_owned(),
        Step::Work(Work::Write { .. } | Work::Raise { .. } | Work::Wait { .. }) => {
            "BATCH_MEM_OP".to_owned()
        }
        Step::Work(_) => "EMPTY".to_owned(),
        Step::Record(_) => "EVENT_RECORD".to_owned(),
        Step::Wait(_) => "EVENT_WAIT".to_owned(),
        Step::Child(_) => "GRAPH".to_owned(),
        Step::Acquire(memory) => format!("MEM_ALLOC\\n{} bytes", memory.bytes),
        Step::Release(memory) => format!("MEM_FREE\\n{:#x}", memory.base),
        Step::Branch(branch) => format!("CONDITIONAL\\n{:?}", branch.form),
    }
}

impl State {
    fn draw(&self, handle: usize, verbose: bool, text: &mut String) {
        let Some(graph) = self.graphs.get(handle) else { return };
        let number = self.graphs.number(handle);
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "subgraph cluster_{number} {{\nlabel=\"graph_{number}\" graph[style=\"dashed\"]"
        );
        for (index, (name, node)) in graph.nodes.iter().enumerate() {
            let known = self.nodes.number(*name);
            let more = if verbose { format!("\\n{name:#x}") } else { String::new() };
            let what = words(&node.step);
            let _ = writeln!(
                text,
                "\"node_{known}\" [shape=\"box\" label=\"{index}\\n{what}{more}\"];"
            );
            for body in node.step.bodies() {
                self.draw(*body, verbose, text);
            }
        }
        for (name, node) in &graph.nodes {
            for before in &node.after {
                let (from, to) = (self.nodes.number(*before), self.nodes.number(*name));
                let _ = writeln!(text, "\"node_{from}\" -> \"node_{to}\";");
            }
        }
        text.push_str("}\n");
    }
}

impl Machine {
    /// Returns the drawing of a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn draw(&self, caller: &Caller, handle: usize, flags: u32) -> Outcome<String> {
        let mut state = self.lock();
        state.graph(caller, handle)?;
        if flags & !FLAGS != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut text = "digraph dot {\n".to_owned();
        state.draw(handle, flags & HANDLES != 0, &mut text);
        text.push_str("}\n");
        Ok(text)
    }
}
