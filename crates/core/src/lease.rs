//! `Lease`: validated memory together with the duty to release it.
//!
//! # Example
//!
//! ```
//! use gpulend::ledger::Name;
//! use gpulend::{Error, Lease};
//!
//! let lease = Lease::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0])?;
//! let export = lease.export(Name::intern("a consumer"));
//!
//! // The memory stays while it is lent, and the error names the holder.
//! let (lease, error) = lease.release().unwrap_err();
//! assert!(matches!(error, Error::StillLent { .. }));
//! assert!(error.to_string().contains("a consumer"));
//!
//! drop(export);
//! assert!(lease.release().is_ok());
//! # Ok::<(), Error>(())
//! ```
//!
//! # The parts
//!
//! A lease joins four answers that every hand-over needs:
//!
//! | question | part |
//! |---|---|
//! | Which bytes, and how are they read? | a [`View`], which cannot exist unless it was validated |
//! | Who releases them? | an [`Owner`], released once, by dropping it |
//! | Which GPU work must be waited for? | a [`Timeline`]; none for host memory, which is always ready |
//! | Who holds them now? | a line in the [ledger](crate::ledger) |
//!
//! [`import`](crate::import) makes leases and [`export`](crate::export) hands them out; neither knows the other. A new
//! protocol therefore needs no knowledge of those that exist.
//!
//! # Who keeps what
//!
//! - Clones share one `Inner`. A sub-lease (a slice, a transpose, a view) has its own view and line, and its owner is a clone of the
//!   lease it was taken from. It shares that lease's timeline, because both describe the same memory.
//! - An [`Export`] is a clone with its own line. A consumer holds it, and drops it in its deleter.
//! - The owner is the last field of `Inner`: it is dropped after the ledger has forgotten the lease, so that
//!   foreign code in the owner never sees a line for memory that is about to be freed.
//! - The last lease with a timeline gives its owner to `retire`, which releases it after the GPU work
//!   ([`stream`](crate::stream)). Host memory is released here.
//!
//! # Order
//!
//! [`Lease::hand_to`] is the beginning of every hand-over to a user with a stream: the stream waits for pending writes
//! (and reads, if it may write), and the timeline notes the stream. The receiver may queue more work as long as its export
//! lives, so a timeline counts what is lent: [`Handed`] is that count, and covers the time until the export exists.
//! [`Lease::hand_over`] does the same for the holder of the lease itself.
//!
//! # Limits
//!
//! - A lease does not lock its memory. Two holders may write at once; the program must synchronise them.
//! - A lease knows only the streams that were named. Others need [`Lease::used_on`] or [`Lease::used_somewhere`].
//! - Users without a deleter (a bare address, an interface dict) hold no export. They rely on the lease itself.
//! - In a forked child, GPU memory belongs to the parent: methods that need a driver fail, and dropping releases nothing.
#![forbid(unsafe_code)]

mod element;
mod recorded;
mod shared;

pub use element::Element;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::{Driver, driver, is_forked};
use crate::dtype::Dtype;
use crate::error::{Error, LayoutError};
use crate::host;
use crate::layout::{Index, Layout};
use crate::ledger::{self, FixedName, Identity, Kind, Name, Slot};
use crate::owner::Owner;
use crate::stream::{Open, Stream, Timeline, release_here, retire};
use crate::view::View;

/// Validated memory and its owner.
///
/// Clones share the owner, which is released when the last clone is
/// dropped. A sub-lease keeps the lease it was taken from.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    view: View,
    slot: Slot,
    /// The work on device memory; host memory is always ready.
    timeline: Option<Arc<Timeline>>,
    borrows: Borrows,
    // Last, so that the ledger has forgotten the lease when its memory is released.
    owner: Owner,
}

/// Whether the timeline counts this lease as a borrower: its holder may queue work on a stream that was named once.
#[derive(Debug)]
enum Borrows {
    /// The lease lives as long as its memory, so its end is the end of all work.
    Never,
    /// A sub-lease may be dropped earlier.
    IfTrue(AtomicBool),
}

impl Drop for Inner {
    fn drop(&mut self) {
        ledger::remove(&self.slot);
        if let (Some(timeline), Borrows::IfTrue(borrows)) = (&self.timeline, &mut self.borrows)
            && *borrows.get_mut()
        {
            timeline.give_back();
        }
        let Some(mut timeline) = self.timeline.take() else { return };
        let owner = mem::replace(&mut self.owner, Owner::nobody());
        // Other leases may share the timeline; the last one retires it. Moving it out of its allocation costs more than the rest.
        if let Some(timeline) = Arc::get_mut(&mut timeline) {
            return retire(timeline, owner);
        }
        match Arc::into_inner(timeline) {
            Some(mut timeline) => retire(&mut timeline, owner),
            // What a sub-lease owns is the lease that it was taken from.
            None => release_here(owner),
        }
    }
}

impl Lease {
    /// Makes a lease of a view and its owner.
    ///
    /// `who` is the origin of the memory in the ledger. Only `import`, `pool`,
    /// `cudarc` and this file make leases of addresses, so few places must
    /// guarantee that the owner keeps the view's memory alive.
    pub(crate) fn new(view: View, owner: Owner, who: Name) -> Self {
        let extent = view.extent();
        Self::entered(view, extent, owner, who, None)
    }

    /// As [`Lease::new`], with a known extent and, for device memory, a timeline, which other leases may share.
    #[inline(always)]
    pub(crate) fn entered(
        view: View,
        extent: (u64, u64),
        owner: Owner,
        who: Name,
        timeline: Option<Arc<Timeline>>,
    ) -> Self {
        let slot = ledger::insert(Kind::Lease, who, extent, None);
        let borrows = Borrows::Never;
        Self(Arc::new(Inner { view, slot, timeline, borrows, owner }))
    }

    /// Allocates host memory, zeroed.
    ///
    /// # Errors
    ///
    /// If the shape overflows or the host has not enough memory.
    pub fn zeros(shape: &[i64], dtype: Dtype, who: Name) -> Result<Self, Error> {
        let layout = Layout::compact(shape, dtype)?;
        let (address, owner) = host::allocate(layout.nbytes(dtype))?;
        let view = View::host(address, dtype, layout, false)?;
        Ok(Self::new(view, owner, who))
    }

    /// Takes over a vector, as a one-dimensional array.
    ///
    /// # Errors
    ///
    /// If it is too long for a layout.
    pub fn from_vec<T: Element>(mut vector: Vec<T>) -> Result<Self, Error> {
        let extent = i64::try_from(vector.len()).map_err(|_| LayoutError::Overflow { axis: 0 })?;
        let layout = Layout::compact(&[extent], T::DTYPE)?;
        let address = vector.as_mut_ptr().expose_provenance() as u64;
        let view = View::host(address, T::DTYPE, layout, false)?;
        Ok(Self::new(view, Owner::keep(vector), Name::intern("Vec")))
    }

    /// Where the memory is and how to read it.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// The origin of the memory, as in the ledger: `torch.Tensor`, `gpulend.wrap`.
    #[must_use]
    pub fn origin(&self) -> Box<str> {
        ledger::origin(&self.0.slot)
    }

    /// Whether the memory belongs to a simulated GPU.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.0.timeline.is_some() && driver().is_ok_and(Driver::is_simulated)
    }

    pub(crate) fn timeline(&self) -> Option<&Timeline> {
        self.0.timeline.as_deref()
    }

    /// The timeline of device memory, for work that needs a driver. It fails in a forked child, which has no driver and must not wait for
    /// the timeline's lock: a thread of the parent may have held it.
    fn driven(&self) -> Result<Option<&Timeline>, Error> {
        let Some(timeline) = self.timeline() else { return Ok(None) };
        driver()?;
        Ok(Some(timeline))
    }

    /// Makes a stream wait until the bytes are ready, and the release wait for the stream.
    /// Every hand-over to a user with a stream begins with this. Host memory needs neither.
    ///
    /// The receiver may queue work on the stream as long as an export lives. The result counts as an export until
    /// the export is made.
    ///
    /// # Errors
    ///
    /// If wrapped memory was freed or reused, the driver fails, or the wait would break a capture.
    pub fn hand_to(&self, stream: &Stream) -> Result<Handed, Error> {
        let handed = Handed::new(self);
        self.order_for(stream, Open::WhileLent)?;
        Ok(handed)
    }

    /// As [`Lease::hand_to`] for the holder of this lease, or of its address, who may use the stream as long as the lease lives.
    ///
    /// # Errors
    ///
    /// As [`Lease::hand_to`].
    pub fn hand_over(&self, stream: &Stream) -> Result<(), Error> {
        let Borrows::IfTrue(borrows) = &self.0.borrows else {
            return self.order_for(stream, Open::Always);
        };
        if let Some(timeline) = self.timeline()
            && !borrows.swap(true, Ordering::AcqRel)
        {
            timeline.forget_done();
            timeline.lend();
        }
        self.order_for(stream, Open::WhileLent)
    }

    fn order_for(&self, stream: &Stream, open: Open) -> Result<(), Error> {
        let Some(timeline) = self.driven()? else { return Ok(()) };
        let writes = !self.view().readonly();
        timeline.check_live()?;
        timeline.ready_for(stream, writes)?;
        self.record_on(stream, writes)?;
        timeline.used_on(stream, writes, open)
    }

    /// Checks that wrapped memory is still the same allocation.
    ///
    /// # Errors
    ///
    /// If it was freed.
    pub fn check_live(&self) -> Result<(), Error> {
        self.timeline().map_or(Ok(()), Timeline::check_live)
    }

    /// Notes that a stream works on the memory: the release and the next user wait for that work.
    /// This includes later work on the stream, as long as the stream can be named.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn used_on(&self, stream: &Stream) -> Result<(), Error> {
        let Some(timeline) = self.driven()? else { return Ok(()) };
        self.record_on(stream, true)?;
        timeline.note_named();
        timeline.used_on(stream, true, Open::Always)
    }

    /// Notes that other code may work on the memory on the streams that the lease knows already, because it has the bare
    /// address: the release waits for those streams from now on. Memory that nobody touched is released without waiting.
    pub fn note_unseen_work(&self) {
        if let Some(timeline) = self.timeline().filter(|_| !is_forked()) {
            timeline.note_unseen_work();
        }
    }

    /// Whether all pending writes are done.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn is_ready(&self) -> Result<bool, Error> {
        self.driven()?.map_or(Ok(true), Timeline::is_ready)
    }

    /// Waits on the host until the bytes are ready, for a user that works on the host from now on: later calls of
    /// gpulend that queue work on the memory wait for that work before they return.
    ///
    /// # Errors
    ///
    /// As [`Lease::hand_to`].
    pub fn hand_to_host(&self) -> Result<(), Error> {
        let Some(timeline) = self.driven()? else { return Ok(()) };
        timeline.check_live()?;
        timeline.share_with_host()
    }

    /// Notes that the receiver of an export uses streams that it does not name.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn used_somewhere(&self) -> Result<(), Error> {
        self.hide(Open::WhileLent)
    }

    /// As [`Lease::used_somewhere`] for a user without an export, who may work on the memory as long as it lives.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn used_somewhere_always(&self) -> Result<(), Error> {
        self.hide(Open::Always)
    }

    fn hide(&self, open: Open) -> Result<(), Error> {
        if let Some(timeline) = self.driven()? {
            timeline.note_hidden(!self.view().readonly(), open);
        }
        Ok(())
    }

    /// Whether a cycle collector may take the lease with its owner: it is not shared, and no queued work may touch the
    /// memory. The reaper looks at the work in the background, so a later collection learns that it is done. Within one collection,
    /// identified by its number, the answer does not change.
    #[must_use]
    pub fn is_collectable(&self, collection: u64) -> bool {
        let done = |timeline: &Timeline| !is_forked() && timeline.is_collectable(collection);
        self.is_unshared() && self.timeline().is_none_or(done)
    }

    /// Makes `stream` wait for pending writes, unless that would break a capture. In that case a later user must name
    /// its stream. For a stream that the caller did not choose.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn enter(&self, stream: &Stream) -> Result<(), Error> {
        self.driven()?.map_or(Ok(()), |timeline| timeline.enter(stream))
    }

    /// A stream after whose work the bytes are valid; none for host memory.
    ///
    /// # Errors
    ///
    /// As [`Lease::hand_to`].
    pub fn ready_stream(&self) -> Result<Option<Stream>, Error> {
        let Some(timeline) = self.driven()? else { return Ok(None) };
        timeline.check_live()?;
        timeline.one_stream(!self.view().readonly()).map(Some)
    }

    /// Another view of the same memory, which keeps this lease. It must be inside this lease's view.
    fn sub(&self, view: View) -> Self {
        static WHO: FixedName = FixedName::new("a slice or view");
        self.sub_as(Kind::SubLease, WHO.get(), view, false)
    }

    fn sub_as(&self, kind: Kind, who: Name, view: View, borrows: bool) -> Self {
        let slot = ledger::insert(kind, who, view.extent(), Some(&self.0.slot));
        let timeline = self.0.timeline.clone();
        let owner = Owner::keep_shared(Arc::clone(&self.0));
        let borrows = Borrows::IfTrue(AtomicBool::new(borrows));
        Self(Arc::new(Inner { view, slot, timeline, borrows, owner }))
    }

    /// The same memory as a lease for a consumer, which the ledger lists as an export to it: for consumers that may keep
    /// the lease itself.
    #[must_use]
    pub fn lent_to(&self, who: Name) -> Self {
        self.timeline().map(Timeline::lend);
        self.sub_as(Kind::Export, who, self.view().clone(), true)
    }

    /// A slice, as [`View::index`].
    ///
    /// # Errors
    ///
    /// As [`View::index`].
    pub fn index(&self, indices: &[Index]) -> Result<Self, Error> {
        Ok(self.sub(self.view().index(indices)?))
    }

    /// The axes in reverse order.
    #[must_use]
    pub fn transposed(&self) -> Self {
        self.sub(self.view().transposed())
    }

    /// The same elements under another shape, as [`View::reshaped`].
    ///
    /// # Errors
    ///
    /// As [`View::reshaped`].
    pub fn reshaped(&self, shape: &[i64]) -> Result<Self, Error> {
        Ok(self.sub(self.view().reshaped(shape)?))
    }

    /// The same elements repeated to another shape, as [`View::broadcast`].
    #[must_use]
    pub fn broadcast(&self, shape: &[i64]) -> Option<Self> {
        self.view().broadcast(shape).map(|view| self.sub(view))
    }

    /// The same bytes read as another type, as [`View::viewed`].
    ///
    /// # Errors
    ///
    /// As [`View::viewed`].
    pub fn viewed(&self, dtype: Dtype) -> Result<Self, Error> {
        Ok(self.sub(self.view().viewed(dtype)?))
    }

    /// The same memory, read-only.
    #[must_use]
    pub fn as_readonly(&self) -> Self {
        self.sub(self.view().as_readonly())
    }

    /// Marks a new lease read-only by contract: its producer never writes the memory again.
    #[must_use]
    pub fn immutable(mut self) -> Self {
        match Arc::get_mut(&mut self.0) {
            Some(inner) => inner.view.set_immutable(),
            None => return self.as_readonly(),
        }
        self
    }

    /// Has a new lease keep another owner too, which is released after its own.
    #[must_use]
    pub fn keeping(mut self, other: Owner) -> Self {
        match Arc::get_mut(&mut self.0) {
            Some(inner) => {
                let own = mem::replace(&mut inner.owner, Owner::nobody());
                inner.owner = Owner::keep((own, other));
                self
            }
            // A lease that is shared is kept as it is.
            None => {
                let view = self.view().clone();
                let mut kept = self.sub(view);
                if let Some(inner) = Arc::get_mut(&mut kept.0) {
                    inner.owner = Owner::keep((self, other));
                }
                kept
            }
        }
    }

    /// The same memory, writable although this lease is read-only.
    ///
    /// For consumers without read-only arrays, if the user accepts that they could write.
    #[must_use]
    pub fn as_writable_alias(&self) -> Self {
        self.sub(self.view().as_writable())
    }

    /// `bytes` bytes from `low` on, as a sub-lease; they must be inside this lease's extent.
    pub(crate) fn bytes(&self, low: u64, bytes: u64) -> Result<Self, Error> {
        let extent = i64::try_from(bytes).map_err(|_| LayoutError::Overflow { axis: 0 })?;
        let layout = Layout::compact(&[extent], Dtype::UINT8)?;
        let place = (self.view().device(), self.view().memory());
        Ok(self.sub(View::new(low, place, Dtype::UINT8, layout, self.view().readonly())?))
    }

    /// Hands the memory to `who`; it stays alive as long as the export.
    #[must_use]
    pub fn export(&self, who: Name) -> Export {
        let slot = ledger::insert_export(who, &self.0.slot);
        Export { slot, handed: Handed::counted(self) }
    }

    /// Whether this is the only clone: no exports, no sub-leases.
    #[must_use]
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Checks that the lease has no exports and no sub-leases.
    ///
    /// # Errors
    ///
    /// If it has: the error names the holders.
    pub fn check_unlent(&self) -> Result<(), Error> {
        if self.is_unshared() {
            return Ok(());
        }
        Err(Error::StillLent { holders: ledger::holders(&self.0.slot) })
    }

    /// Ends the lease now, if it has no exports and no sub-leases.
    ///
    /// # Errors
    ///
    /// If it has: returns the lease, and an error that names the holders.
    pub fn release(self) -> Result<(), (Self, Error)> {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => {
                drop(inner);
                Ok(())
            }
            Err(shared) => {
                let holders = ledger::holders(&shared.slot);
                Err((Self(shared), Error::StillLent { holders }))
            }
        }
    }
}

/// Counts a receiver that may queue work on the memory until this is dropped.
#[derive(Debug)]
#[must_use = "it counts the receiver until the export is made"]
pub struct Handed(Lease);

impl Handed {
    /// For a hand-over that is ordered by other means.
    pub fn new(lease: &Lease) -> Self {
        // Before this one is counted: the work of earlier ones may be over.
        lease.timeline().map(Timeline::forget_done);
        Self::counted(lease)
    }

    fn counted(lease: &Lease) -> Self {
        lease.timeline().map(Timeline::lend);
        Self(lease.clone())
    }

    /// The lease.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.0
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.0.timeline().map(Timeline::give_back);
    }
}

/// What a consumer holds: a clone of the lease with a line of its own in the ledger.
#[derive(Debug)]
pub struct Export {
    slot: Slot,
    handed: Handed,
}

impl Export {
    /// The lease.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.handed.0
    }

    /// Which line in the ledger it has.
    pub(crate) fn identity(&self) -> Identity {
        Identity::of(&self.slot)
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        ledger::remove(&self.slot);
    }
}
