//! Nodes of graphs: adding, removing, and the edges between them.
#![forbid(unsafe_code)]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::graph::{Draft, Graph, Node, Step};
use super::graph_update::can_replace;
use super::operation::Work;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

const INVALID: Status = Status::ERROR_INVALID_VALUE;

/// How many graphs may be inside a graph, each inside the one before.
const DEEPEST: usize = 128;

impl State {
    /// Returns allocations with their buffer ids.
    pub(super) fn touches(&self, bases: &[usize]) -> Vec<(usize, u64)> {
        let known = |base: &usize| self.memory.get(*base).map(|found| (*base, found.buffer_id));
        bases.iter().filter_map(known).collect()
    }

    /// Refuses dependencies that are not different nodes of the graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub(super) fn check_dependencies(
        &mut self,
        caller: &Caller,
        graph: usize,
        after: &[usize],
    ) -> Outcome<()> {
        self.graph(caller, graph)?;
        let mut seen = BTreeSet::new();
        for node in after {
            if self.graph_of(caller, *node)? != graph || !seen.insert(node) {
                return Err(INVALID);
            }
        }
        Ok(())
    }

    /// Returns what nodes depend on after `change` of each edge, by node. The graph stays as it is.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for an edge that is not between two nodes of the graph, or that `change` refuses.
    fn changed_edges(
        &mut self,
        caller: &Caller,
        graph: usize,
        edges: &[(usize, usize)],
        change: fn(&mut BTreeSet<usize>, usize) -> bool,
    ) -> Outcome<BTreeMap<usize, BTreeSet<usize>>> {
        let mut changed: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (from, to) in edges {
            self.check_dependencies(caller, graph, &[*from, *to])?;
            let before = match changed.entry(*to) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    new.insert(self.node(caller, *to)?.after.iter().copied().collect())
                }
            };
            if !change(before, *from) {
                return Err(INVALID);
            }
        }
        Ok(changed)
    }

    /// Adds a node to a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub(super) fn add_node(
        &mut self,
        caller: &Caller,
        graph: usize,
        after: &[usize],
        draft: Draft,
    ) -> Outcome<usize> {
        self.check_dependencies(caller, graph, after)?;
        let handle = self.nodes.add(graph);
        self.graph(caller, graph)?.insert(handle, draft.node(after.to_vec()));
        Ok(handle)
    }

    /// Copies a graph into a new one, with the graphs inside.
    pub(super) fn clone_graph(&mut self, handle: usize, inside: usize) -> usize {
        let Some(graph) = self.graphs.get(handle) else { return 0 };
        let (nodes, keeps) = (graph.nodes.clone(), graph.keeps.clone());
        // Conditions stay the original's: it has no nodes for them, or it would not be copied.
        let copy = self.graphs.add(Graph::copied(keeps, inside));
        let names: BTreeMap<usize, usize> =
            nodes.keys().map(|node| (*node, self.nodes.add(copy))).collect();
        for (old, node) in nodes {
            let Some(name) = names.get(&old).copied() else { continue };
            let step = node.step.try_map(|body| Ok::<_, Status>(self.clone_graph(*body, name)));
            let Ok(step) = step else { continue };
            let after = node.after.iter().filter_map(|other| names.get(other).copied()).collect();
            let exposed = Vec::new();
            if let Some(graph) = self.graphs.get_mut(copy) {
                graph.copies.insert(old, name);
                graph.insert(name, Node { step, after, exposed, ..node });
            }
        }
        copy
    }

    /// Removes a graph with its nodes and the graphs inside.
    pub(super) fn end_graph(&mut self, handle: usize) {
        let Some(graph) = self.graphs.remove(handle) else { return };
        for (name, node) in graph.nodes {
            self.nodes.remove(name);
            for body in node.step.bodies() {
                self.end_graph(*body);
            }
        }
    }

    /// Returns whether a graph, or one inside it, has such a node.
    fn has(&self, handle: usize, such: fn(&Step) -> bool) -> bool {
        let Some(graph) = self.graphs.get(handle) else { return false };
        let mut bodies = graph.nodes.values().flat_map(|node| node.step.bodies());
        graph.has(such) || bodies.any(|body| self.has(*body, such))
    }

    /// Refuses to copy a graph with memory or conditions, as CUDA does.
    fn refuse_copy(&mut self, caller: &Caller, handle: usize) -> Outcome<()> {
        let what = if self.has(handle, Step::is_memory) {
            "a graph that allocates memory cannot be copied"
        } else if self.has(handle, Step::is_branch) {
            "a graph with conditional nodes cannot be copied"
        } else {
            return Ok(());
        };
        Err(self.fault(caller, Status::ERROR_NOT_SUPPORTED, what, handle))
    }

    /// Returns how many graphs a graph is inside of.
    fn depth(&self, graph: usize) -> usize {
        let node = self.graphs.get(graph).map_or(0, |graph| graph.inside);
        self.nodes.get(node).map_or(0, |parent| 1 + self.depth(*parent))
    }

    /// Returns how many graphs, of which each is inside the one before, begin with a graph.
    fn height(&self, graph: usize) -> usize {
        let nodes = self.graphs.get(graph).into_iter().flat_map(|graph| graph.nodes.values());
        let bodies = nodes.flat_map(|node| node.step.bodies());
        1 + bodies.map(|body| self.height(*body)).max().unwrap_or(0)
    }

    /// Refuses a graph of this height inside `parent` if too many graphs would be inside each other: each is a frame of the
    /// stack for all that looks at them.
    pub(super) fn refuse_deep(
        &mut self,
        caller: &Caller,
        parent: usize,
        height: usize,
    ) -> Outcome<()> {
        if self.depth(parent) + height > DEEPEST {
            let what = "more than 128 graphs inside each other";
            return Err(self.fault(caller, Status::ERROR_NOT_SUPPORTED, what, parent));
        }
        Ok(())
    }

    /// Returns whether `graph` is `other`, or inside it.
    pub(super) fn is_inside(&self, graph: usize, other: usize) -> bool {
        if graph == other {
            return true;
        }
        let node = self.graphs.get(graph).map_or(0, |graph| graph.inside);
        self.nodes.get(node).is_some_and(|parent| self.is_inside(*parent, other))
    }

    /// Copies a graph to be a child in `parent`; refuses one that cannot be.
    fn embed(&mut self, caller: &Caller, parent: usize, child: usize) -> Outcome<usize> {
        self.own_graph(caller, child)?;
        if self.is_inside(parent, child) {
            return Err(INVALID);
        }
        self.refuse_copy(caller, child)?;
        self.refuse_deep(caller, parent, self.height(child))?;
        Ok(self.clone_graph(child, 0))
    }

    /// Refuses to end graphs while a capture builds one of them, or one inside.
    fn refuse_captured_into(&self, graphs: &[usize]) -> Outcome<()> {
        if graphs.iter().any(|graph| self.is_captured_into(*graph)) {
            return Err(Status::ERROR_ILLEGAL_STATE);
        }
        Ok(())
    }

    /// Refuses memory nodes in a graph inside another, as CUDA does.
    pub(super) fn refuse_memory_inside(&mut self, caller: &Caller, graph: usize) -> Outcome<()> {
        if self.graph(caller, graph)?.inside != 0 {
            let what = "a memory node in a graph inside another";
            return Err(self.fault(caller, Status::ERROR_NOT_SUPPORTED, what, graph));
        }
        Ok(())
    }

    /// Refuses to remove nodes and edges of a graph that allocates memory, as CUDA does.
    fn refuse_removal(&mut self, caller: &Caller, graph: usize) -> Outcome<()> {
        if self.graph(caller, graph)?.allocates {
            let what = "removal from a graph that allocates memory";
            return Err(self.fault(caller, Status::ERROR_NOT_SUPPORTED, what, graph));
        }
        Ok(())
    }
}

/// Returns whether it is a copy of more than one row.
fn has_rows<B>(step: &Step<B>) -> bool {
    matches!(step, Step::Work(Work::Copy { shape, .. }) if shape.height > 1 || shape.depth > 1)
}

impl Machine {
    /// Creates an empty graph.
    #[must_use]
    pub fn create_graph(&self) -> usize {
        self.lock().graphs.add(Graph::default())
    }

    /// Destroys a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn destroy_graph(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        let inside = state.graph(caller, handle)?.inside;
        if inside != 0 {
            return Err(INVALID);
        }
        state.refuse_captured_into(&[handle])?;
        state.end_graph(handle);
        state.sweep_graph_memory(caller);
        Ok(())
    }

    /// Copies a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`; `NOT_SUPPORTED` for one with memory or conditional nodes.
    pub fn copy_graph(&self, caller: &Caller, handle: usize) -> Outcome<usize> {
        let mut state = self.lock();
        state.graph(caller, handle)?;
        state.refuse_copy(caller, handle)?;
        Ok(state.clone_graph(handle, 0))
    }

    /// Adds a node.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn add_node(
        &self,
        caller: &Caller,
        (graph, after): (usize, &[usize]),
        draft: Draft,
    ) -> Outcome<usize> {
        self.lock().add_node(caller, graph, after, draft)
    }

    /// Adds a node that runs a copy of another graph, or that graph itself if `moves`.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`; `NOT_SUPPORTED` for one with conditional nodes, and for a copy of one with memory.
    pub fn add_child(
        &self,
        caller: &Caller,
        (graph, after): (usize, &[usize]),
        child: usize,
        moves: bool,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        state.check_dependencies(caller, graph, after)?;
        let body = if moves {
            if state.graph(caller, child)?.inside != 0 || state.is_inside(graph, child) {
                return Err(INVALID);
            }
            if state.has(child, Step::is_branch) {
                let what = "a graph with conditional nodes cannot be a child of another";
                return Err(state.fault(caller, Status::ERROR_NOT_SUPPORTED, what, child));
            }
            let height = state.height(child);
            state.refuse_deep(caller, graph, height)?;
            child
        } else {
            state.embed(caller, graph, child)?
        };
        let node = state.add_node(caller, graph, after, Draft::of(Step::Child(body)))?;
        let body = state.graph(caller, body)?;
        (body.inside, body.moved) = (node, moves);
        Ok(node)
    }

    /// Replaces the graph of a child node by a copy of another.
    ///
    /// # Errors
    ///
    /// As [`Machine::add_child`].
    pub fn set_child(&self, caller: &Caller, node: usize, child: usize) -> Outcome<()> {
        let mut state = self.lock();
        let parent = state.graph_of(caller, node)?;
        let Step::Child(old) = state.node(caller, node)?.step else { return Err(INVALID) };
        // What is inside the node ends with the call.
        if state.is_inside(child, old) {
            return Err(INVALID);
        }
        state.refuse_captured_into(&[old])?;
        let body = state.embed(caller, parent, child)?;
        state.graph(caller, body)?.inside = node;
        state.node(caller, node)?.step = Step::Child(body);
        state.end_graph(old);
        state.sweep_graph_memory(caller);
        Ok(())
    }

    /// Replaces what a node does by something of the same kind.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn set_node(&self, caller: &Caller, node: usize, draft: Draft) -> Outcome<()> {
        let mut state = self.lock();
        let found = state.node(caller, node)?;
        if found.step.kind() != draft.step.kind() {
            return Err(INVALID);
        }
        let Draft { mut step, touches, context, given } = draft;
        step.set_cooperative(found.step.is_cooperative())?;
        (found.step, found.touches, found.context, found.given) = (step, touches, context, given);
        Ok(())
    }

    /// Removes a node with its edges.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`; `NOT_SUPPORTED` in a graph that allocates memory.
    pub fn destroy_node(&self, caller: &Caller, node: usize) -> Outcome<()> {
        let mut state = self.lock();
        let graph = state.graph_of(caller, node)?;
        state.refuse_removal(caller, graph)?;
        let bodies = state.node(caller, node)?.step.bodies().to_vec();
        state.refuse_captured_into(&bodies)?;
        let gone = state.graph(caller, graph)?.remove(node);
        state.nodes.remove(node);
        for body in bodies {
            state.end_graph(body);
        }
        drop(gone);
        state.sweep_graph_memory(caller);
        Ok(())
    }

    /// Returns the handles of the nodes of a graph; if `roots`, only of those without dependencies.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn graph_nodes(&self, caller: &Caller, handle: usize, roots: bool) -> Outcome<Vec<usize>> {
        let mut state = self.lock();
        let nodes = state.graph(caller, handle)?.nodes.iter();
        let fits = |node: &Node| !roots || node.after.is_empty();
        Ok(nodes.filter(|(_, node)| fits(node)).map(|(handle, _)| *handle).collect())
    }

    /// Returns the edges of a graph: from, to.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn graph_edges(&self, caller: &Caller, handle: usize) -> Outcome<Vec<(usize, usize)>> {
        let mut state = self.lock();
        let nodes = state.graph(caller, handle)?.nodes.iter();
        Ok(nodes.flat_map(|(to, node)| node.after.iter().map(|from| (*from, *to))).collect())
    }

    /// Returns the nodes before a node, or those after it.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn neighbours(&self, caller: &Caller, node: usize, before: bool) -> Outcome<Vec<usize>> {
        let mut state = self.lock();
        if before {
            return Ok(state.node(caller, node)?.after.clone());
        }
        let graph = state.graph_of(caller, node)?;
        Ok(state.graph(caller, graph)?.followers(node))
    }

    /// Adds edges to a graph. If one is wrong, adds none.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, also for an edge that exists.
    pub fn add_edges(
        &self,
        caller: &Caller,
        graph: usize,
        edges: &[(usize, usize)],
    ) -> Outcome<()> {
        let mut state = self.lock();
        state.graph(caller, graph)?;
        state.changed_edges(caller, graph, edges, BTreeSet::insert)?;
        for (from, to) in edges {
            state.graph(caller, graph)?.connect(*from, *to);
        }
        Ok(())
    }

    /// Removes edges of a graph. If one is wrong, removes none.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`; `NOT_SUPPORTED` in a graph that allocates memory.
    pub fn remove_edges(
        &self,
        caller: &Caller,
        graph: usize,
        edges: &[(usize, usize)],
    ) -> Outcome<()> {
        let mut state = self.lock();
        state.graph(caller, graph)?;
        if edges.is_empty() {
            return Ok(());
        }
        state.refuse_removal(caller, graph)?;
        let left =
            state.changed_edges(caller, graph, edges, |before, from| before.remove(&from))?;
        for (to, before) in left {
            state.graph(caller, graph)?.disconnect(to, &before);
        }
        Ok(())
    }

    /// Returns the type of a node in CUDA's numbering.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn node_kind(&self, caller: &Caller, node: usize) -> Outcome<i32> {
        Ok(self.lock().node(caller, node)?.step.kind())
    }

    /// Returns the graph of a node.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn graph_of(&self, caller: &Caller, node: usize) -> Outcome<usize> {
        self.lock().graph_of(caller, node)
    }

    /// Returns the number of a node in its graph, and among all nodes.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn node_numbers(&self, caller: &Caller, node: usize) -> Outcome<(u32, u64)> {
        let mut state = self.lock();
        let graph = state.graph_of(caller, node)?;
        let place = state.graph(caller, graph)?.nodes.keys().position(|other| *other == node);
        let local = place.and_then(|place| u32::try_from(place).ok()).ok_or(INVALID)?;
        Ok((local, state.nodes.number(node)))
    }

    /// Returns the number of a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn graph_number(&self, caller: &Caller, graph: usize) -> Outcome<u64> {
        let mut state = self.lock();
        state.graph(caller, graph)?;
        Ok(state.graphs.number(graph))
    }

    /// Returns the copy of a node in a copy of its graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn find_copy(&self, caller: &Caller, original: usize, graph: usize) -> Outcome<usize> {
        let mut state = self.lock();
        let graph = state.graph(caller, graph)?;
        let copy = graph.copies.get(&original).copied();
        copy.filter(|copy| graph.nodes.contains_key(copy)).ok_or(INVALID)
    }

    /// Lets `look` see a node, whose kind must be `kind`.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, or an error of `look`.
    pub fn with_node<T>(
        &self,
        caller: &Caller,
        node: usize,
        kind: i32,
        look: impl FnOnce(&mut Node) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut state = self.lock();
        let node = state.node(caller, node)?;
        if node.step.kind() == kind { look(node) } else { Err(INVALID) }
    }

    /// Replaces what a node of an executable graph does by something of the same kind: a kernel of the same context, a
    /// copy of one row between the same kinds of memory, a fill of the same rows.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn set_executable_node(
        &self,
        caller: &Caller,
        executable: usize,
        node: usize,
        draft: Draft,
    ) -> Outcome<()> {
        let mut state = self.lock();
        let places = state.places_of(&draft.step);
        let found = state.changed_executable(caller, executable, node)?;
        let step = draft.step.try_map(|_| Err::<Arc<_>, Status>(INVALID))?;
        let changed = Arc::make_mut(&mut found.graph).change(node, &mut |node| {
            let is_launch = matches!(step, Step::Work(Work::Launch(_)));
            if node.step.kind() != step.kind()
                || !can_replace((&node.step, &node.places), (&step, &places))
                || has_rows(&node.step)
                || has_rows(&step)
                || is_launch && node.context != draft.context
            {
                return Err(INVALID);
            }
            let mut step = step.clone();
            step.set_cooperative(node.step.is_cooperative())?;
            (node.step, node.touches) = (step, draft.touches.clone());
            node.places.clone_from(&places);
            node.context = draft.context.or(node.context);
            Ok(())
        });
        changed.unwrap_or(Err(INVALID))
    }
}
