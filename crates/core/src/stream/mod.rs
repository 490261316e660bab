//! Order between the work of several libraries: streams, events, and the timeline of a lease.
//!
//! At the entry the consumer's stream waits for the producer's by an event, and
//! the host does not wait. At the exit the reaper releases the owner when the
//! work that may use the memory is done.

mod claim;
mod collecting;
mod current;
mod event;
mod gate;
mod graph;
mod moment;
mod order;
mod readiness;
mod ready;
mod reaper;
mod recording;
#[expect(clippy::module_inception, reason = "the room is named after its main type")]
mod stream;
mod sync;
mod timeline;
mod uses;

pub(crate) use current::current_handle;
pub use current::{current, current_device, enter, leave};
pub use event::Event;
pub(crate) use gate::Gate;
pub use graph::{Capturing, Graph, Mode};
pub use order::{is_capturing, order, order_named, refuse_capture, synchronize};
pub(crate) use order::{
    is_legacy_idle, note_capture, record_beside_legacy, refuse_capturing, refuse_implicit,
    was_capture_seen,
};
pub use ready::Ready;
pub use reaper::{deleting, drain};
pub(crate) use reaper::{
    hurry, is_deleting, is_reaper, release_after, release_after_all, release_after_some,
    release_elsewhere, release_here, retire,
};
pub(crate) use recording::Recording;
pub use stream::Stream;
pub(crate) use timeline::Timeline;
pub(crate) use uses::Open;
