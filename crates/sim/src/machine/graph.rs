//! Graphs: nodes, and the order between them.
//!
//! A graph names its nodes and the graphs inside them by handles, so that a program can change it. Instantiating it
//! makes a [`Frozen`] copy, which later changes do not touch.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::condition::{Branch, Condition};
use super::graph_memory::Reserved;
use super::graph_update::Place;
use super::launch::COOPERATIVE;
use super::operation::Work;
use super::user_object::Kept;
use super::{Caller, State};
use crate::bytes::Range;
use crate::status::{Outcome, Status};

/// The action of a node. `B` names a graph inside it: by its handle, or by its frozen copy.
#[derive(Clone, Debug)]
pub enum Step<B = usize> {
    /// Work.
    Work(Work),
    /// Records an event.
    Record(usize),
    /// Waits for an event.
    Wait(usize),
    /// Runs another graph.
    Child(B),
    /// Allocates memory of the graph.
    Acquire(Arc<Reserved>),
    /// Frees memory of a graph.
    Release(Arc<Reserved>),
    /// Runs one of several graphs, or one several times.
    Branch(Branch<B>),
}

impl<B> Step<B> {
    /// Returns the node's type in CUDA's numbering.
    #[must_use]
    pub fn kind(&self) -> i32 {
        match self {
            Self::Work(Work::Launch(_)) => 0,
            Self::Work(Work::Copy { .. }) => 1,
            Self::Work(Work::Fill { .. }) => 2,
            Self::Work(Work::Call(_)) => 3,
            Self::Child(_) => 4,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
            Self::Acquire(_) => 10,
            Self::Release(_) => 11,
            Self::Work(Work::Write { .. } | Work::Raise { .. } | Work::Wait { .. }) => 12,
            Self::Branch(_) => 13,
            Self::Work(_) => 5,
        }
    }

    /// Returns whether it allocates or frees memory of a graph.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Acquire(_) | Self::Release(_))
    }

    /// Returns whether it runs a graph by a condition.
    #[must_use]
    pub fn is_branch(&self) -> bool {
        matches!(self, Self::Branch(_))
    }

    /// Returns the same step with other names of the graphs inside it.
    ///
    /// # Errors
    ///
    /// The first error of `rename`.
    pub fn try_map<C, E>(&self, mut rename: impl FnMut(&B) -> Result<C, E>) -> Result<Step<C>, E> {
        Ok(match self {
            Self::Work(work) => Step::Work(work.clone()),
            Self::Record(event) => Step::Record(*event),
            Self::Wait(event) => Step::Wait(*event),
            Self::Child(body) => Step::Child(rename(body)?),
            Self::Acquire(memory) => Step::Acquire(Arc::clone(memory)),
            Self::Release(memory) => Step::Release(Arc::clone(memory)),
            Self::Branch(Branch { condition, form, bodies }) => Step::Branch(Branch {
                condition: Arc::clone(condition),
                form: *form,
                bodies: bodies.iter().map(rename).collect::<Result<Vec<C>, E>>()?,
            }),
        })
    }

    /// Returns whether it is a cooperative launch.
    #[must_use]
    pub fn is_cooperative(&self) -> bool {
        matches!(self, Self::Work(Work::Launch(launched)) if launched.launch.cooperative)
    }

    /// Makes a launch cooperative, or plain.
    ///
    /// # Errors
    ///
    /// `COOPERATIVE_LAUNCH_TOO_LARGE`.
    pub fn set_cooperative(&mut self, cooperative: bool) -> Outcome<()> {
        match self {
            Self::Work(Work::Launch(launched)) if launched.launch.cooperative != cooperative => {
                Arc::make_mut(launched).set_cooperative(cooperative)
            }
            _ => Ok(()),
        }
    }

    /// Returns the graphs inside it.
    pub fn bodies(&self) -> &[B] {
        match self {
            Self::Child(body) => std::slice::from_ref(body),
            Self::Branch(branch) => &branch.bodies,
            _ => &[],
        }
    }
}

/// What the caller gave to make a node, as far as the work does not say it.
#[derive(Clone, Debug, Default)]
pub enum Given {
    /// The work says it all.
    #[default]
    Nothing,
    /// The 25 words of a `CUDA_MEMCPY3D`.
    Copy(Box<[u64; 25]>),
    /// The handle of a function, or of a library's kernel.
    Kernel(usize),
}

/// A node of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its action.
    pub step: Step,
    /// The nodes it depends on.
    pub after: Vec<usize>,
    /// The allocations that it accesses: base and buffer id.
    pub touches: Vec<(usize, u64)>,
    /// Its context; `None`: that of the stream in which the graph is launched.
    pub context: Option<usize>,
    /// What the caller gave.
    pub given: Given,
    /// The attributes of a kernel that were set, by CUDA's numbers, but for the one that the launch has.
    pub(super) attributes: BTreeMap<i32, [u32; 16]>,
    /// What the caller may read until the node is changed.
    pub exposed: Vec<usize>,
}

impl Node {
    /// Returns an attribute of a kernel: zeros, unless it was set.
    #[must_use]
    pub fn attribute(&self, id: i32) -> [u32; 16] {
        let mut value = self.attributes.get(&id).copied().unwrap_or_default();
        if id == COOPERATIVE {
            value[0] = u32::from(self.step.is_cooperative());
        }
        value
    }

    /// Sets an attribute of a kernel.
    ///
    /// # Errors
    ///
    /// As [`Step::set_cooperative`].
    pub fn set_attribute(&mut self, id: i32, value: [u32; 16]) -> Outcome<()> {
        if id == COOPERATIVE {
            return self.step.set_cooperative(value[0] != 0);
        }
        self.attributes.insert(id, value);
        Ok(())
    }

    /// Takes over all attributes of another kernel.
    ///
    /// # Errors
    ///
    /// As [`Step::set_cooperative`].
    pub fn copy_attributes(&mut self, source: &Self) -> Outcome<()> {
        self.step.set_cooperative(source.step.is_cooperative())?;
        self.attributes.clone_from(&source.attributes);
        Ok(())
    }
}

/// A node before it belongs to a graph.
#[derive(Clone, Debug)]
pub struct Draft {
    /// As in [`Node`].
    pub step: Step,
    /// As in [`Node`].
    pub touches: Vec<(usize, u64)>,
    /// As in [`Node`].
    pub context: Option<usize>,
    /// As in [`Node`].
    pub given: Given,
}

impl Draft {
    /// Makes a draft that accesses no memory.
    #[must_use]
    pub fn of(step: Step) -> Self {
        Self { step, touches: Vec::new(), context: None, given: Given::Nothing }
    }

    pub(super) fn node(self, after: Vec<usize>) -> Node {
        let Self { step, touches, context, given } = self;
        let (attributes, exposed) = (BTreeMap::new(), Vec::new());
        Node { step, after, touches, context, given, attributes, exposed }
    }
}

/// A graph.
#[derive(Debug, Default)]
pub struct Graph {
    /// The nodes by handle, in the order in which they were made.
    pub nodes: BTreeMap<usize, Node>,
    /// The nodes that depend on a node.
    followers: BTreeMap<usize, BTreeSet<usize>>,
    /// The addresses that nodes free.
    frees: BTreeSet<usize>,
    /// Whether a node allocates or frees memory. Such nodes cannot be removed.
    pub allocates: bool,
    /// In a copy of a graph: the copies of nodes, by their originals. Some may be removed.
    pub copies: BTreeMap<usize, usize>,
    /// The user objects that it keeps, by handle, with the number of references.
    pub keeps: BTreeMap<usize, (u32, Arc<Kept>)>,
    /// The conditions made for it.
    pub conditions: Vec<Arc<Condition>>,
    /// The node that it is inside of, or 0.
    pub inside: usize,
    /// Whether the program moved it there, rather than a copy.
    pub moved: bool,
}

impl Graph {
    /// Makes a graph for copies of nodes, with user objects of its own.
    #[must_use]
    pub fn copied(keeps: BTreeMap<usize, (u32, Arc<Kept>)>, inside: usize) -> Self {
        Self { keeps, inside, ..Self::default() }
    }

    /// Adds a node with its edges.
    pub fn insert(&mut self, handle: usize, node: Node) {
        for before in &node.after {
            self.followers.entry(*before).or_default().insert(handle);
        }
        if let Step::Release(memory) = &node.step {
            self.frees.insert(memory.base);
        }
        self.allocates |= node.step.is_memory();
        self.nodes.insert(handle, node);
    }

    /// Adds an edge that does not exist.
    pub fn connect(&mut self, from: usize, to: usize) {
        if let Some(node) = self.nodes.get_mut(&to) {
            node.after.push(from);
            self.followers.entry(from).or_default().insert(to);
        }
    }

    /// Removes the edges to a node, except those from `left`.
    pub fn disconnect(&mut self, to: usize, left: &BTreeSet<usize>) {
        let Some(node) = self.nodes.get_mut(&to) else { return };
        for from in node.after.extract_if(.., |from| !left.contains(from)) {
            if let Some(followers) = self.followers.get_mut(&from) {
                followers.remove(&to);
            }
        }
    }

    /// Removes a node with its edges.
    pub fn remove(&mut self, handle: usize) -> Option<Node> {
        self.disconnect(handle, &BTreeSet::new());
        for follower in self.followers.remove(&handle).unwrap_or_default() {
            if let Some(node) = self.nodes.get_mut(&follower) {
                node.after.retain(|before| *before != handle);
            }
        }
        self.nodes.remove(&handle)
    }

    /// Returns whether a node frees memory of a graph. Such nodes cannot be removed.
    #[must_use]
    pub fn frees(&self, address: usize) -> bool {
        self.frees.contains(&address)
    }

    /// Returns the nodes that depend on a node.
    #[must_use]
    pub fn followers(&self, handle: usize) -> Vec<usize> {
        self.followers.get(&handle).into_iter().flatten().copied().collect()
    }

    /// Returns whether `ends` are or depend on all of some nodes. Looks at the latest nodes first, and no further than it
    /// must.
    #[must_use]
    pub fn reaches(&self, ends: &[usize], nodes: &[usize]) -> bool {
        let mut wanted: BTreeSet<usize> = nodes.iter().copied().collect();
        let mut left: BTreeSet<usize> = ends.iter().copied().collect();
        let mut seen = left.clone();
        while let Some(node) = left.pop_last() {
            wanted.remove(&node);
            if wanted.is_empty() {
                return true;
            }
            let before = self.nodes.get(&node).into_iter().flat_map(|node| &node.after);
            left.extend(before.filter(|before| seen.insert(**before)));
        }
        wanted.is_empty()
    }

    /// Returns the nodes in an order that respects their dependencies, and otherwise that in which they were made; or
    /// a node of a cycle.
    fn in_order(&self) -> Result<Vec<usize>, usize> {
        let mut waiting: BTreeMap<usize, usize> = BTreeMap::new();
        let mut ready = BTreeSet::new();
        for (handle, node) in &self.nodes {
            waiting.insert(*handle, node.after.len());
            if node.after.is_empty() {
                ready.insert(*handle);
            }
        }
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(handle) = ready.pop_first() {
            order.push(handle);
            waiting.remove(&handle);
            for follower in self.followers.get(&handle).into_iter().flatten() {
                if let Some(left) = waiting.get_mut(follower) {
                    *left -= 1;
                    if *left == 0 {
                        ready.insert(*follower);
                    }
                }
            }
        }
        waiting.first_key_value().map_or(Ok(order), |(handle, _)| Err(*handle))
    }

    /// Returns whether it has such a node itself.
    #[must_use]
    pub fn has(&self, such: impl Fn(&Step) -> bool) -> bool {
        self.nodes.values().any(|node| such(&node.step))
    }
}

/// A node of a frozen graph.
#[derive(Clone, Debug)]
pub struct FrozenNode {
    /// The node of the graph that was instantiated.
    pub origin: usize,
    /// Its action.
    pub step: Step<Arc<Frozen>>,
    /// The indices of the nodes it depends on, which come before it.
    pub after: Vec<usize>,
    /// As in [`Node`].
    pub touches: Vec<(usize, u64)>,
    /// As in [`Node`].
    pub context: Option<usize>,
    /// Where the operands of a copy or a fill were when the graph was instantiated.
    pub places: Vec<Place>,
    /// Whether it does anything.
    pub enabled: bool,
}

/// A copy of a graph that is ready to run.
#[derive(Clone, Debug, Default)]
pub struct Frozen {
    /// The nodes, each after those that it depends on.
    pub nodes: Vec<FrozenNode>,
    /// The user objects that it keeps.
    pub keeps: Vec<Arc<Kept>>,
    /// The conditions made for it.
    pub conditions: Vec<Arc<Condition>>,
}

impl Frozen {
    /// Calls `look` with each node, also of the graphs inside, until it returns something.
    pub fn find<T>(&self, look: &mut dyn FnMut(&FrozenNode) -> Option<T>) -> Option<T> {
        self.nodes.iter().find_map(|node| {
            look(node).or_else(|| node.step.bodies().iter().find_map(|body| body.find(look)))
        })
    }

    /// Calls `change` with the node that was made from `origin`, also in the graphs inside.
    pub fn change<T>(
        &mut self,
        origin: usize,
        change: &mut dyn FnMut(&mut FrozenNode) -> T,
    ) -> Option<T> {
        for node in &mut self.nodes {
            if node.origin == origin {
                return Some(change(node));
            }
            let bodies: &mut [Arc<Self>] = match &mut node.step {
                Step::Child(body) => std::slice::from_mut(body),
                Step::Branch(branch) => &mut branch.bodies,
                _ => continue,
            };
            for body in bodies {
                if body.find(&mut |node| (node.origin == origin).then_some(())).is_some() {
                    return Arc::make_mut(body).change(origin, change);
                }
            }
        }
        None
    }

    /// Returns all conditions, also of the graphs inside.
    #[must_use]
    pub fn all_conditions(&self) -> Vec<Arc<Condition>> {
        let inside = self.nodes.iter().flat_map(|node| node.step.bodies());
        self.conditions
            .iter()
            .cloned()
            .chain(inside.flat_map(|body| body.all_conditions()))
            .collect()
    }

    /// Returns all memory that it allocates, or frees.
    #[must_use]
    pub fn memory(&self, freed: bool) -> Vec<Arc<Reserved>> {
        let mut found = Vec::new();
        self.find::<()>(&mut |node| {
            match &node.step {
                Step::Acquire(memory) if !freed => found.push(Arc::clone(memory)),
                Step::Release(memory) if freed => found.push(Arc::clone(memory)),
                _ => {}
            }
            None
        });
        found
    }
}

impl FrozenNode {
    /// Returns an address of the caller's memory that is no longer mapped, if the node copies from or to one.
    #[must_use]
    pub fn unmapped(&self) -> Option<usize> {
        let Step::Work(Work::Copy { target, source, .. }) = &self.step else { return None };
        [target, source].into_iter().find(|range| !range.is_mapped()).map(Range::address)
    }

    /// Returns the module of the kernel that the node launches, if any.
    #[must_use]
    pub fn launches(&self) -> Option<usize> {
        let Step::Work(Work::Launch(launched)) = &self.step else { return None };
        Some(launched.module)
    }
}

impl State {
    /// Returns a graph that was not moved into another: such a graph lives on as a part of that one.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub(super) fn own_graph(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Graph> {
        if self.graph(caller, handle)?.moved {
            let what = "use of a graph that was moved into another";
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, handle));
        }
        self.graph(caller, handle)
    }

    pub(super) fn graph(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Graph> {
        if self.graphs.was(handle) {
            return Err(self.fault(
                caller,
                Status::ERROR_INVALID_VALUE,
                "use of a destroyed graph",
                handle,
            ));
        }
        self.graphs.get_mut(handle).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Returns the handle of the graph that a node belongs to.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn graph_of(&mut self, caller: &Caller, node: usize) -> Outcome<usize> {
        if self.nodes.was(node) {
            let what = "use of a destroyed node";
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, node));
        }
        self.nodes.get(node).copied().ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Returns a node.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn node(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Node> {
        let graph = self.graph_of(caller, handle)?;
        self.graph(caller, graph)?.nodes.get_mut(&handle).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Makes a frozen copy of a graph; or returns a node that prevents it.
    ///
    /// # Errors
    ///
    /// A node of a cycle.
    pub(super) fn freeze(&self, handle: usize) -> Result<Frozen, usize> {
        let Some(graph) = self.graphs.get(handle) else { return Ok(Frozen::default()) };
        let order = graph.in_order()?;
        let places: BTreeMap<usize, usize> =
            order.iter().enumerate().map(|(index, handle)| (*handle, index)).collect();
        let mut nodes: Vec<FrozenNode> = Vec::with_capacity(order.len());
        for handle in &order {
            let Some(node) = graph.nodes.get(handle) else { continue };
            let step = node.step.try_map(|body| self.freeze(*body).map(Arc::new))?;
            let mut touches = node.touches.clone();
            for body in step.bodies() {
                touches.extend(body.nodes.iter().flat_map(|inner| inner.touches.iter().copied()));
            }
            touches.sort_unstable();
            touches.dedup();
            nodes.push(FrozenNode {
                origin: *handle,
                places: self.places_of(&step),
                step,
                after: node.after.iter().filter_map(|before| places.get(before).copied()).collect(),
                touches,
                context: node.context,
                enabled: true,
            });
        }
        let keeps = graph.keeps.values().map(|(_, kept)| Arc::clone(kept)).collect();
        Ok(Frozen { nodes, keeps, conditions: graph.conditions.clone() })
    }
}
