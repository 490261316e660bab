//! Stream capture, and replay of graphs.

use std::ffi::c_char;

use super::pointer::Out;
use super::{Call, entry, thread};
use crate::machine::capture::Mode;
use crate::status::{Outcome, Status};

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    flags: u64,
    upload: usize,
    failed: usize,
    result: i32,
}

impl Call {
    fn begin(self, stream: usize, mode: i32) -> Outcome<()> {
        let stream = self.stream(stream)?;
        self.machine()?.begin_capture(&self.caller(), stream, mode)
    }
}

entry! {
    /// Begins a capture in global mode.
    fn [cuStreamBeginCapture, cuStreamBeginCapture_ptsz](stream: usize) |call| { call.begin(stream, 0) }
}

entry! {
    /// Begins a capture.
    fn [cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz](stream: usize, mode: i32) |call| { call.begin(stream, mode) }
}

entry! {
    /// Sets the capture mode of this thread, and returns the earlier one.
    fn cuThreadExchangeStreamCaptureMode(mode: Out<i32>) |call| {
        call.machine()?;
        let wanted = Mode::try_from(mode.take()?)?;
        mode.put(thread::exchange_mode(wanted) as i32)
    }
}

entry! {
    /// Ends a capture and returns its graph.
    fn [cuStreamEndCapture, cuStreamEndCapture_ptsz](stream: usize, graph: Out<usize>) |call| {
        let stream = call.stream(stream)?;
        let machine = call.machine()?;
        let ended = machine.end_capture(&call.caller(), stream);
        if graph.is_null() {
            // The caller did not ask for it.
            return machine.destroy_graph(&call.caller(), ended?);
        }
        graph.offer(*ended.as_ref().unwrap_or(&0));
        ended.map(|_| ())
    }
}

entry! {
    /// Returns whether a stream captures: 0 no, 1 yes, 2 invalidated.
    fn [cuStreamIsCapturing, cuStreamIsCapturing_ptsz](stream: usize, status: Out<i32>) |call| {
        let stream = call.stream(stream)?;
        status.required()?;
        let info = call.machine()?.capture_info(&call.caller(), stream)?;
        status.put(info.map_or(0, |info| info.status))
    }
}

/// The output pointers for the description of a capture.
struct CaptureOut {
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<usize>,
    after: Out<usize>,
    edges: Out<usize>,
    count: Out<usize>,
}

impl Call {
    fn put_capture(self, stream: usize, out: &CaptureOut) -> Outcome<()> {
        let stream = self.stream(stream)?;
        out.status.required()?;
        let info = self.machine()?.capture_info(&self.caller(), stream)?;
        out.status.put(info.as_ref().map_or(0, |info| info.status))?;
        if let Some(info) = info.filter(|info| info.status == 1) {
            out.id.offer(info.id);
            out.graph.offer(info.graph);
            out.after.offer(info.after);
            out.edges.offer(info.edges);
            out.count.offer(info.count);
        }
        Ok(())
    }
}

entry! {
    /// Returns the id of a stream's capture.
    fn [cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz](stream: usize, status: Out<i32>, id: Out<u64>) |call| {
        let (graph, after, edges, count) = (Out::nowhere(), Out::nowhere(), Out::nowhere(), Out::nowhere());
        call.put_capture(stream, &CaptureOut { status, id, graph, after, edges, count })
    }
}

entry! {
    /// Describes a stream's capture.
    fn [cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz](
        stream: usize,
        status: Out<i32>,
        id: Out<u64>,
        graph: Out<usize>,
        after: Out<usize>,
        count: Out<usize>,
    ) |call| { call.put_capture(stream, &CaptureOut { status, id, graph, after, edges: Out::nowhere(), count }) }
}

entry! {
    /// Describes a stream's capture. No edge carries data.
    fn [cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz](
        stream: usize,
        status: Out<i32>,
        id: Out<u64>,
        graph: Out<usize>,
        after: Out<usize>,
        edges: Out<usize>,
        count: Out<usize>,
    ) |call| { call.put_capture(stream, &CaptureOut { status, id, graph, after, edges, count }) }
}

impl Call {
    fn instantiate(
        self,
        executable: Out<usize>,
        graph: usize,
        flags: u64,
        may_upload: bool,
    ) -> Outcome<()> {
        executable.required()?;
        executable.put(self.machine()?.instantiate(&self.caller(), graph, flags, may_upload)?)
    }
}

entry! {
    /// Instantiates a graph. The log stays empty.
    fn [cuGraphInstantiate, cuGraphInstantiate_v2](
        executable: Out<usize>,
        graph: usize,
        failed: Out<usize>,
        log: Out<c_char>,
        room: usize,
    ) |call| {
        failed.offer(0);
        if room > 0 {
            log.offer(0);
        }
        call.instantiate(executable, graph, 0, false)
    }
}

entry! {
    /// Instantiates a graph.
    fn cuGraphInstantiateWithFlags(executable: Out<usize>, graph: usize, flags: u64) |call| {
        call.instantiate(executable, graph, flags, false)
    }
}

entry! {
    /// Instantiates a graph.
    fn [cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz](
        executable: Out<usize>,
        graph: usize,
        parameters: Out<Parameters>,
    ) |call| {
        let mut changed = parameters.take()?;
        let made = call.instantiate(executable, graph, changed.flags, true);
        (changed.failed, changed.result) = (0, i32::from(made.is_err()));
        parameters.put(changed)?;
        made
    }
}

entry! {
    /// Launches a graph in stream order.
    fn [cuGraphLaunch, cuGraphLaunch_ptsz](executable: usize, stream: usize) |call| {
        if executable == 0 {
            call.machine()?;
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let stream = call.stream(stream)?;
        call.machine()?.launch_graph(&call.caller(), executable, stream)
    }
}

entry! {
    /// Uploads a graph: nothing to do.
    fn [cuGraphUpload, cuGraphUpload_ptsz](executable: usize, stream: usize) |call| {
        let stream = call.stream(stream)?;
        call.machine()?.upload_graph(&call.caller(), executable, stream)
    }
}

entry! {
    /// Destroys an executable graph.
    fn cuGraphExecDestroy(executable: usize) |call| {
        call.machine()?.destroy_executable(&call.caller(), executable)
    }
}

entry! {
    /// Destroys a graph.
    fn cuGraphDestroy(graph: usize) |call| { call.machine()?.destroy_graph(&call.caller(), graph) }
}

entry! {
    /// Returns up to `count` nodes of a graph, or the number of nodes.
    fn cuGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) |call| {
        let found = call.machine()?.graph_nodes(&call.caller(), graph)?;
        if nodes.is_null() {
            return count.put(found.len());
        }
        let room = count.take()?;
        // SAFETY: (1): the caller has room for as many nodes as it said.
        unsafe { nodes.put_all(found.iter().copied().chain(std::iter::repeat(0)).take(room)) };
        count.put(room.min(found.len()))
    }
}

entry! {
    /// Returns the type of a node.
    fn cuGraphNodeGetType(node: usize, kind: Out<i32>) |call| { kind.put(call.machine()?.node_kind(node)?) }
}
