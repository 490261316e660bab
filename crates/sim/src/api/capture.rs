//! Stream capture, and replay of graphs.

use std::ffi::c_char;

use super::graphs::{check_edges, handles};
use super::pointer::{In, Out};
use super::{Call, entry, thread};
use crate::machine::capture::Mode;
use crate::machine::graph_run::Refused;
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
        self.machine()?.begin_capture(&self.caller(), stream, mode, None)
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
    /// Begins a capture into a graph that exists, behind some of its nodes.
    fn [cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz](
        stream: usize,
        graph: usize,
        after: In<usize>,
        edges: In<u64>,
        count: usize,
        mode: i32,
    ) |call| {
        let stream = call.stream(stream)?;
        check_edges(edges, count)?;
        let into = Some((graph, handles(after, count)?));
        call.machine()?.begin_capture(&call.caller(), stream, mode, into)
    }
}

impl Call {
    fn update_capture(
        self,
        stream: usize,
        nodes: In<usize>,
        count: usize,
        flags: u32,
    ) -> Outcome<()> {
        let stream = self.stream(stream)?;
        if flags > 1 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let nodes = handles(nodes, count)?;
        self.machine()?.update_capture(&self.caller(), stream, &nodes, flags == 1)
    }
}

entry! {
    /// Changes what the next node of a capture depends on.
    fn [cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz](
        stream: usize,
        nodes: In<usize>,
        count: usize,
        flags: u32,
    ) |call| { call.update_capture(stream, nodes, count, flags) }
}

entry! {
    /// Changes what the next node of a capture depends on.
    fn [cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz](
        stream: usize,
        nodes: In<usize>,
        edges: In<u64>,
        count: usize,
        flags: u32,
    ) |call| {
        check_edges(edges, count)?;
        call.update_capture(stream, nodes, count, flags)
    }
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
        let ended = machine.end_capture(&call.caller(), stream, !graph.is_null());
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
    ) -> Result<(), Refused> {
        executable.required()?;
        let made = self.machine()?.instantiate(&self.caller(), graph, flags, may_upload)?;
        executable.offer(made);
        Ok(())
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
        if room > 0 {
            log.offer(0);
        }
        let made = call.instantiate(executable, graph, 0, false);
        failed.offer(made.err().map_or(0, |refused| refused.node));
        made.map_err(|refused| refused.status)
    }
}

entry! {
    /// Instantiates a graph.
    fn cuGraphInstantiateWithFlags(executable: Out<usize>, graph: usize, flags: u64) |call| {
        call.instantiate(executable, graph, flags, false).map_err(|refused| refused.status)
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
        (changed.failed, changed.result) =
            made.err().map_or((0, 0), |refused| (refused.node, refused.result));
        parameters.put(changed)?;
        made.map_err(|refused| refused.status)
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
