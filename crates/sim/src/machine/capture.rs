//! Stream capture: work that becomes a graph, and the calls that are forbidden during it.
//!
//! The rules were observed on a real driver, call by call; `tests/driver/test_capture_rules.py` lists them.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use super::graph::{Draft, Given, Graph, Step};
use super::operation::Work;
use super::stream::Role;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// The capture mode: for which threads unsafe calls are forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For every thread.
    Global = 0,
    /// For the thread that began it.
    ThreadLocal,
    /// For no thread.
    Relaxed,
}

impl TryFrom<i32> for Mode {
    type Error = Status;

    fn try_from(mode: i32) -> Outcome<Self> {
        [Self::Global, Self::ThreadLocal, Self::Relaxed]
            .into_iter()
            .find(|known| *known as i32 == mode)
            .ok_or(Status::ERROR_INVALID_VALUE)
    }
}

/// An active capture.
#[derive(Debug)]
pub struct Capture {
    mode: Mode,
    thread: u64,
    /// The stream in which it began.
    origin: usize,
    /// The graph so far.
    graph: usize,
    /// Whether the capture made the graph, rather than the program.
    made: bool,
    /// Whether it was invalidated.
    invalid: bool,
}

/// A stream's part of a capture.
#[derive(Debug)]
pub struct Captured {
    /// The id of the capture.
    pub capture: u64,
    /// The nodes that the next one depends on.
    after: Vec<usize>,
    /// Their handles for the caller, who may read them until the next call.
    handles: Vec<usize>,
    /// The data of the edges to them: zeros.
    edges: Vec<u64>,
}

impl Captured {
    fn new(capture: u64) -> Self {
        Self { capture, after: Vec::new(), handles: Vec::new(), edges: Vec::new() }
    }

    /// Has the next node depend on some more.
    fn join(&mut self, nodes: &[usize]) {
        let mut known: BTreeSet<usize> = self.after.iter().copied().collect();
        self.after.extend(nodes.iter().filter(|node| known.insert(**node)));
    }
}

/// The result of `cuStreamGetCaptureInfo`.
#[derive(Debug)]
pub struct Info {
    /// 1: active, 2: invalidated.
    pub status: i32,
    /// The id of the capture.
    pub id: u64,
    /// The graph so far.
    pub graph: usize,
    /// The address of the handles of the nodes that the next one depends on.
    pub after: usize,
    /// The address of the data of the edges to them: 8 bytes each, all zero.
    pub edges: usize,
    /// How many there are.
    pub count: usize,
}

impl State {
    /// Returns whether a stream is capturing, even if the capture is invalidated.
    #[must_use]
    pub fn is_capturing(&self, stream: usize) -> bool {
        self.streams.get(stream).is_some_and(|stream| stream.capture.is_some())
    }

    fn invalidate(&mut self, captures: impl IntoIterator<Item = u64>) -> bool {
        let mut any = false;
        for id in captures {
            any = true;
            if let Some(capture) = self.captures.get_mut(&id) {
                capture.invalid = true;
            }
        }
        any
    }

    /// Refuses an unsafe call, and invalidates the captures that forbid it.
    ///
    /// # Errors
    ///
    /// `STREAM_CAPTURE_UNSUPPORTED`.
    pub fn refuse_unsafe(&mut self, caller: &Caller) -> Outcome<()> {
        if self.captures.is_empty() || caller.mode == Mode::Relaxed {
            return Ok(());
        }
        let forbids = |capture: &Capture| match capture.mode {
            Mode::Relaxed => false,
            Mode::ThreadLocal => capture.thread == caller.thread,
            Mode::Global => capture.thread == caller.thread || caller.mode == Mode::Global,
        };
        let hit: Vec<u64> = self
            .captures
            .iter()
            .filter(|(_, capture)| forbids(capture))
            .map(|(id, _)| *id)
            .collect();
        if self.invalidate(hit) { Err(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// Returns the captures that the legacy stream would have to wait for.
    fn implied(&self, stream: usize) -> BTreeSet<u64> {
        let Some(legacy) = self.streams.get(stream).filter(|stream| stream.role == Role::Legacy)
        else {
            return BTreeSet::new();
        };
        self.streams
            .iter()
            .filter(|(_, other)| other.context == legacy.context && other.is_blocking())
            .filter_map(|(_, other)| other.capture.as_ref().map(|captured| captured.capture))
            .collect()
    }

    /// Refuses the legacy stream while a blocking stream is capturing, and invalidates that capture.
    ///
    /// # Errors
    ///
    /// `STREAM_CAPTURE_IMPLICIT`.
    pub fn refuse_legacy(&mut self, stream: usize) -> Outcome<()> {
        if self.captures.is_empty() {
            return Ok(());
        }
        let hit = self.implied(stream);
        if self.invalidate(hit) { Err(Status::ERROR_STREAM_CAPTURE_IMPLICIT) } else { Ok(()) }
    }

    /// Refuses a call that a capturing stream does not support, and invalidates the capture.
    ///
    /// # Errors
    ///
    /// `STREAM_CAPTURE_UNSUPPORTED`.
    pub fn refuse_captured_stream(&mut self, stream: usize) -> Outcome<()> {
        let hit = self
            .streams
            .get(stream)
            .and_then(|stream| stream.capture.as_ref())
            .map(|captured| captured.capture);
        if self.invalidate(hit) { Err(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// Refuses to query or wait for a stream.
    ///
    /// # Errors
    ///
    /// An error of a capture.
    pub fn refuse_waiting(&mut self, caller: &Caller, stream: usize) -> Outcome<()> {
        self.refuse_captured_stream(stream)?;
        self.refuse_legacy(stream)?;
        self.refuse_unsafe(caller)
    }

    /// Refuses calls about a whole context in which a stream is capturing, in any mode.
    ///
    /// # Errors
    ///
    /// `STREAM_CAPTURE_UNSUPPORTED`.
    pub fn refuse_in_context(&mut self, caller: &Caller, context: usize) -> Outcome<()> {
        let hit: BTreeSet<u64> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.context == context)
            .filter_map(|(_, stream)| stream.capture.as_ref().map(|captured| captured.capture))
            .collect();
        if self.invalidate(hit) {
            return Err(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        self.refuse_unsafe(caller)
    }

    /// Refuses to query or wait for an event that was last recorded in a capture.
    ///
    /// # Errors
    ///
    /// `CAPTURED_EVENT`, or `INVALID_VALUE` after the end of the capture.
    pub fn refuse_captured_event(&mut self, event: usize, invalidates: bool) -> Outcome<()> {
        let Some(id) = self
            .events
            .get(event)
            .and_then(|event| event.captured.as_ref())
            .map(|captured| captured.0)
        else {
            return Ok(());
        };
        if !self.captures.contains_key(&id) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if invalidates {
            self.invalidate([id]);
        }
        Err(Status::ERROR_CAPTURED_EVENT)
    }

    /// Returns the capture of a capturing stream if it is valid.
    fn valid_capture(&self, stream: usize) -> Outcome<u64> {
        let captured = self.streams.get(stream).and_then(|stream| stream.capture.as_ref());
        let id = captured.ok_or(Status::ERROR_ILLEGAL_STATE)?.capture;
        match self.captures.get(&id) {
            Some(capture) if !capture.invalid => Ok(id),
            _ => Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Adds a node for work submitted to a capturing stream.
    ///
    /// # Errors
    ///
    /// `STREAM_CAPTURE_INVALIDATED`.
    pub fn capture_work(&mut self, stream: usize, work: Work, touches: &[usize]) -> Outcome<()> {
        self.capture_step(stream, Step::Work(work), touches)
    }

    pub(super) fn capture_step(
        &mut self,
        stream: usize,
        step: Step,
        touches: &[usize],
    ) -> Outcome<()> {
        let id = self.valid_capture(stream)?;
        let touches = self.touches(touches);
        let handle = self.captures.get(&id).map_or(0, |capture| capture.graph);
        let found = self.streams.get_mut(stream);
        let context = found.as_ref().map(|stream| stream.context);
        let captured = found.and_then(|stream| stream.capture.as_mut());
        let (Some(captured), Some(graph)) = (captured, self.graphs.get_mut(handle)) else {
            return Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED);
        };
        let node = self.nodes.add(handle);
        let draft = Draft { step, touches, context, given: Given::Nothing };
        // The program may have removed nodes meanwhile.
        captured.after.retain(|before| graph.nodes.contains_key(before));
        graph.insert(node, draft.node(captured.after.clone()));
        captured.after = vec![node];
        Ok(())
    }

    /// Refuses memory nodes where the stream captures into a graph inside another. Returns the graph.
    ///
    /// # Errors
    ///
    /// `NOT_SUPPORTED`, or an error of the capture.
    pub(super) fn refuse_captured_memory(
        &mut self,
        caller: &Caller,
        stream: usize,
    ) -> Outcome<usize> {
        let id = self.valid_capture(stream)?;
        let graph = self.captures.get(&id).map_or(0, |capture| capture.graph);
        self.refuse_memory_inside(caller, graph)?;
        Ok(graph)
    }

    /// Records an event in a capturing stream. An external record is a node; others mark a point of the
    /// capture.
    ///
    /// # Errors
    ///
    /// `STREAM_CAPTURE_INVALIDATED`.
    pub fn capture_record(&mut self, stream: usize, event: usize, external: bool) -> Outcome<()> {
        let id = self.valid_capture(stream)?;
        if external {
            return self.capture_step(stream, Step::Record(event), &[]);
        }
        let captured = self.streams.get(stream).and_then(|stream| stream.capture.as_ref());
        let after = captured.map(|captured| captured.after.clone()).unwrap_or_default();
        if let Some(event) = self.events.get_mut(event) {
            event.captured = Some((id, after));
        }
        Ok(())
    }

    /// Makes a stream wait for an event if either of them is captured.
    ///
    /// # Errors
    ///
    /// An error of the capture.
    pub fn capture_wait(
        &mut self,
        stream: usize,
        event: usize,
        captured: Option<(u64, Vec<usize>)>,
        external: bool,
    ) -> Outcome<()> {
        let Some((id, nodes)) = captured else {
            let own = self.valid_capture(stream)?;
            if external {
                return self.capture_step(stream, Step::Wait(event), &[]);
            }
            if self.events.get(event).is_some_and(|event| event.record.is_none()) {
                return Ok(());
            }
            self.invalidate([own]);
            return Err(Status::ERROR_STREAM_CAPTURE_ISOLATION);
        };
        if !self.captures.contains_key(&id) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if self.streams.get(stream).is_some_and(|stream| stream.role == Role::Legacy) {
            self.invalidate([id]);
            return Err(Status::ERROR_STREAM_CAPTURE_IMPLICIT);
        }
        if self.is_capturing(stream) {
            let own = self.valid_capture(stream)?;
            if own != id {
                self.invalidate([own, id]);
                return Err(Status::ERROR_STREAM_CAPTURE_MERGE);
            }
        }
        if self.captures.get(&id).is_none_or(|capture| capture.invalid) {
            return Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.capture.get_or_insert(Captured::new(id)).join(&nodes);
        }
        Ok(())
    }

    /// Removes a destroyed stream from its capture. If the capture began in it, ends the capture; if its work was
    /// not joined, invalidates it.
    pub fn forget_capture(&mut self, caller: &Caller, stream: usize) {
        let Some(id) = self
            .streams
            .get(stream)
            .and_then(|stream| stream.capture.as_ref())
            .map(|captured| captured.capture)
        else {
            return;
        };
        let Some(capture) = self.captures.get(&id) else { return };
        if capture.origin == stream {
            self.drop_capture(caller, id);
        } else {
            // Another stream may carry its work on to the origin.
            let mut others = self.streams_of(id);
            others.retain(|other| *other != stream);
            if !self.has_joined(stream, capture, &others) {
                self.invalidate([id]);
            }
        }
    }

    /// Returns what the next node of a capturing stream depends on.
    fn ends(&self, stream: usize) -> &[usize] {
        let captured = self.streams.get(stream).and_then(|stream| stream.capture.as_ref());
        captured.map(|captured| &captured.after[..]).unwrap_or_default()
    }

    /// Returns whether some of a capture's streams depend on all work of one of them.
    fn has_joined(&self, stream: usize, capture: &Capture, others: &[usize]) -> bool {
        let Some(graph) = self.graphs.get(capture.graph) else { return false };
        let ends: Vec<usize> = others.iter().flat_map(|other| self.ends(*other)).copied().collect();
        graph.reaches(&ends, self.ends(stream))
    }

    /// Returns the streams of a capture.
    fn streams_of(&self, id: u64) -> Vec<usize> {
        let of_it = |captured: &Captured| captured.capture == id;
        let streams = self.streams.iter();
        streams
            .filter(|(_, stream)| stream.capture.as_ref().is_some_and(of_it))
            .map(|(stream, _)| stream)
            .collect()
    }

    /// Ends a capture that failed, and its graph: as an H200 does, also one that the program made. A graph inside of a node stays.
    fn drop_capture(&mut self, caller: &Caller, id: u64) {
        let Some(capture) = self.close_capture(id) else { return };
        if self.graphs.get(capture.graph).is_some_and(|graph| graph.inside == 0) {
            self.end_graph(capture.graph);
            self.sweep_graph_memory(caller);
        }
    }

    /// Returns whether a capture builds a graph or one inside it.
    pub(super) fn is_captured_into(&self, graph: usize) -> bool {
        self.captures.values().any(|capture| self.is_inside(capture.graph, graph))
    }

    /// Ends a capture.
    fn close_capture(&mut self, id: u64) -> Option<Capture> {
        for (_, stream) in self.streams.iter_mut() {
            if stream.capture.as_ref().is_some_and(|captured| captured.capture == id) {
                stream.capture = None;
            }
        }
        self.captures.remove(&id)
    }

    /// Returns whether every stream of the capture was joined to its origin.
    fn is_joined(&self, id: u64, capture: &Capture) -> bool {
        let streams = self.streams_of(id);
        streams.into_iter().all(|stream| self.has_joined(stream, capture, &[capture.origin]))
    }
}

impl Machine {
    /// Begins a capture, into a new graph or into one that exists, behind some of its nodes.
    ///
    /// # Errors
    ///
    /// As `cuStreamBeginCapture` and `cuStreamBeginCaptureToGraph`.
    pub fn begin_capture(
        &self,
        caller: &Caller,
        stream: usize,
        mode: i32,
        into: Option<(usize, Vec<usize>)>,
    ) -> Outcome<()> {
        let mode = Mode::try_from(mode)?;
        let mut state = self.lock();
        let role = state.stream(caller, stream)?.role;
        state.refuse_legacy(stream)?;
        if role == Role::Legacy {
            return Err(Status::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        if state.is_capturing(stream) {
            return Err(Status::ERROR_ILLEGAL_STATE);
        }
        if let Some((graph, after)) = &into {
            state.check_dependencies(caller, *graph, after)?;
            if state.captures.values().any(|capture| capture.graph == *graph) {
                return Err(Status::ERROR_INVALID_VALUE);
            }
        }
        state.captures_made += 1;
        let id = state.captures_made;
        let made = into.is_none();
        let (graph, after) =
            into.unwrap_or_else(|| (state.graphs.add(Graph::default()), Vec::new()));
        let thread = caller.thread;
        let capture = Capture { mode, thread, origin: stream, graph, made, invalid: false };
        state.captures.insert(id, capture);
        state.stream(caller, stream)?.capture = Some(Captured { after, ..Captured::new(id) });
        Ok(())
    }

    /// Ends a capture and returns its graph. If the caller does not want it, a graph that the capture made ends as well.
    ///
    /// # Errors
    ///
    /// As `cuStreamEndCapture`.
    pub fn end_capture(&self, caller: &Caller, stream: usize, wanted: bool) -> Outcome<usize> {
        let mut state = self.lock();
        let captured =
            state.stream(caller, stream)?.capture.as_ref().map(|captured| captured.capture);
        let id = captured.ok_or(Status::ERROR_ILLEGAL_STATE)?;
        let Some(capture) = state.captures.get(&id) else {
            return Err(Status::ERROR_ILLEGAL_STATE);
        };
        if capture.origin != stream {
            state.invalidate([id]);
            return Err(Status::ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        let refused = if capture.mode != Mode::Relaxed && capture.thread != caller.thread {
            Some(Status::ERROR_STREAM_CAPTURE_WRONG_THREAD)
        } else if capture.invalid {
            Some(Status::ERROR_STREAM_CAPTURE_INVALIDATED)
        } else if !state.is_joined(id, capture) {
            Some(Status::ERROR_STREAM_CAPTURE_UNJOINED)
        } else {
            None
        };
        if let Some(status) = refused {
            state.drop_capture(caller, id);
            return Err(status);
        }
        let ended = state.close_capture(id).ok_or(Status::ERROR_ILLEGAL_STATE)?;
        if ended.made && !wanted {
            state.end_graph(ended.graph);
            state.sweep_graph_memory(caller);
        }
        Ok(ended.graph)
    }

    /// Describes the capture of a stream, if there is one.
    ///
    /// # Errors
    ///
    /// `STREAM_CAPTURE_IMPLICIT` for the legacy stream while a blocking one is capturing.
    pub fn capture_info(&self, caller: &Caller, stream: usize) -> Outcome<Option<Info>> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        if !state.implied(stream).is_empty() {
            return Err(Status::ERROR_STREAM_CAPTURE_IMPLICIT);
        }
        let Some(id) =
            state.stream(caller, stream)?.capture.as_ref().map(|captured| captured.capture)
        else {
            return Ok(None);
        };
        let Some((graph, invalid)) =
            state.captures.get(&id).map(|capture| (capture.graph, capture.invalid))
        else {
            return Ok(None);
        };
        let Some(captured) = &mut state.stream(caller, stream)?.capture else { return Ok(None) };
        captured.handles.clone_from(&captured.after);
        captured.edges = vec![0; captured.handles.len()];
        Ok(Some(Info {
            status: if invalid { 2 } else { 1 },
            id,
            graph,
            after: captured.handles.as_ptr().expose_provenance(),
            edges: captured.edges.as_ptr().expose_provenance(),
            count: captured.handles.len(),
        }))
    }
}

impl Machine {
    /// Replaces what the next node of a capturing stream depends on, or adds to it.
    ///
    /// # Errors
    ///
    /// `ILLEGAL_STATE` for a stream that is not capturing, `INVALID_VALUE`, or an error of the capture.
    pub fn update_capture(
        &self,
        caller: &Caller,
        stream: usize,
        nodes: &[usize],
        replaces: bool,
    ) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        let id = state.valid_capture(stream)?;
        let graph = state.captures.get(&id).map_or(0, |capture| capture.graph);
        state.check_dependencies(caller, graph, nodes)?;
        let Some(captured) = &mut state.stream(caller, stream)?.capture else { return Ok(()) };
        if replaces {
            captured.after.clear();
        }
        captured.join(nodes);
        Ok(())
    }
}
