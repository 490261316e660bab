//! `Lease`: a view, its owner, when its bytes are ready, and a line in the ledger. What a user holds.
#![forbid(unsafe_code)]

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::{Driver, driver, is_forked};
use crate::dtype::Dtype;
use crate::error::{Error, LayoutError};
use crate::host;
use crate::layout::{Index, Layout};
use crate::ledger::{self, FixedName, Kind, Name, Slot};
use crate::owner::Owner;
use crate::stream::{Open, Stream, Timeline, retire};
use crate::view::View;

/// Memory that somebody owns, seen through a checked view.
///
/// Clones share the one owner, which is released when the last of them is
/// gone. A sub-lease keeps the lease it was taken from.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    view: View,
    slot: Slot,
    /// What memory of a device waits for; the host's is always ready.
    timeline: Option<Arc<Timeline>>,
    borrows: Borrows,
    // Last, so that the ledger has forgotten the lease when its memory goes.
    owner: Owner,
}

/// Whether a timeline counts a lease among its borrowers: its holder works on the memory on a stream that was named once.
#[derive(Debug)]
enum Borrows {
    /// The lease is as old as its memory, and so is what its holder does.
    Never,
    /// A sub-lease may go sooner.
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
        // The timeline of a lease that is not the last to have it goes on without this one.
        if let Some(timeline) = self.timeline.take().and_then(Arc::into_inner) {
            retire(&timeline, mem::replace(&mut self.owner, Owner::nobody()));
        }
    }
}

impl Lease {
    /// Puts a view and the duty to release it together.
    ///
    /// `who` says in the ledger where the memory came from. Only `import` and
    /// this file make leases of addresses, so the promise that the owner keeps
    /// the view's memory alive has few places to be broken in.
    pub(crate) fn new(view: View, owner: Owner, who: Name) -> Self {
        let extent = view.extent();
        Self::entered(view, extent, owner, who, None)
    }

    /// As [`Lease::new`], with the extent already measured, and for memory of a device when it is ready.
    #[inline(always)]
    pub(crate) fn entered(
        view: View,
        extent: (u64, u64),
        owner: Owner,
        who: Name,
        timeline: Option<Timeline>,
    ) -> Self {
        Self::sharing(view, extent, owner, who, timeline.map(Arc::new))
    }

    /// As [`Lease::entered`], of memory that other leases know too.
    #[inline(always)]
    pub(crate) fn sharing(
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
    /// If the shape overflows or there is no room.
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

    /// Where the memory came from, as the ledger has it: `torch.Tensor`, `gpulend.wrap`.
    #[must_use]
    pub fn origin(&self) -> Box<str> {
        ledger::origin(&self.0.slot)
    }

    /// Whether the memory is a simulated GPU's.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.0.timeline.is_some() && driver().is_ok_and(Driver::is_simulated)
    }

    pub(crate) fn timeline(&self) -> Option<&Timeline> {
        self.0.timeline.as_deref()
    }

    /// The timeline of memory of a device, for work that needs a driver. A forked child has none, and must not wait for
    /// the timeline's lock, which a thread of the parent may have held.
    fn driven(&self) -> Result<Option<&Timeline>, Error> {
        let Some(timeline) = self.timeline() else { return Ok(None) };
        driver()?;
        Ok(Some(timeline))
    }

    /// Has a stream wait until the bytes are ready, and the memory until the stream is done with it:
    /// what every hand-over to somebody with a stream begins with. Memory of the host needs neither.
    ///
    /// The receiver may queue work on the stream as long as an export lives; what is returned stands for that until the
    /// export is made.
    ///
    /// # Errors
    ///
    /// If wrapped memory is no longer what it was, or the driver or a capture stands against it.
    pub fn hand_to(&self, stream: &Stream) -> Result<Handed, Error> {
        let handed = Handed::new(self);
        self.order_for(stream, Open::WhileLent)?;
        Ok(handed)
    }

    /// As [`Lease::hand_to`] for the holder of this lease, or of its address, who works on the stream as long as it is there.
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
        timeline.used_on(stream, writes, open)
    }

    /// Asks whether wrapped memory is still what it was.
    ///
    /// # Errors
    ///
    /// If it was freed.
    pub fn check_live(&self) -> Result<(), Error> {
        self.timeline().map_or(Ok(()), Timeline::check_live)
    }

    /// Notes that somebody queues work on a stream: the memory is not released before it is done, and its next user
    /// waits for it. That holds for what comes later too, as long as the stream can be named.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn used_on(&self, stream: &Stream) -> Result<(), Error> {
        let Some(timeline) = self.driven()? else { return Ok(()) };
        timeline.note_told();
        timeline.used_on(stream, true, Open::Always)
    }

    /// Whether the bytes are ready already, so that nobody needs to wait.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn is_ready(&self) -> Result<bool, Error> {
        self.driven()?.map_or(Ok(true), Timeline::is_ready)
    }

    /// Waits on the host until the bytes are ready, for somebody who works on them from there from now
    /// on: what our own calls queue on the memory later is done when they return.
    ///
    /// # Errors
    ///
    /// As [`Lease::hand_to`].
    pub fn hand_to_host(&self) -> Result<(), Error> {
        let Some(timeline) = self.driven()? else { return Ok(()) };
        timeline.check_live()?;
        timeline.share_with_host()
    }

    /// Notes that the receiver of an export works on the memory on streams that it does not name.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn used_somewhere(&self) -> Result<(), Error> {
        self.hide(Open::WhileLent)
    }

    /// As [`Lease::used_somewhere`] for somebody who gets no export, and may work on the memory as long as it is there.
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

    /// Whether nobody else holds the lease and nothing that was queued may still touch the memory: a cycle collector may take
    /// it with its owner. Work is looked at in the background: what is done now is known to a later collection. The number of
    /// the collection is for this: during one, the answer stays.
    #[must_use]
    pub fn is_collectable(&self, collection: u64) -> bool {
        let done = |timeline: &Timeline| !is_forked() && timeline.is_collectable(collection);
        self.is_unshared() && self.timeline().is_none_or(done)
    }

    /// Has a stream that nobody insisted on wait until the bytes are ready, unless a capture stands
    /// against it: then whoever uses the memory later must name the right one.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn enter(&self, stream: &Stream) -> Result<(), Error> {
        self.driven()?.map_or(Ok(()), |timeline| timeline.enter(stream))
    }

    /// The one stream after which the bytes are valid; none for memory of the host.
    ///
    /// # Errors
    ///
    /// As [`Lease::hand_to`].
    pub fn ready_stream(&self) -> Result<Option<Stream>, Error> {
        let Some(timeline) = self.driven()? else { return Ok(None) };
        timeline.check_live()?;
        timeline.one_stream(!self.view().readonly()).map(Some)
    }

    /// Another view of the same memory, which keeps this lease. The view must lie inside this one's.
    fn sub(&self, view: View) -> Self {
        static WHO: FixedName = FixedName::new("a slice or view");
        let slot = ledger::insert(Kind::SubLease, WHO.get(), view.extent(), Some(&self.0.slot));
        let timeline = self.0.timeline.clone();
        let owner = Owner::keep_shared(Arc::clone(&self.0));
        let borrows = Borrows::IfTrue(AtomicBool::new(false));
        Self(Arc::new(Inner { view, slot, timeline, borrows, owner }))
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

    /// The same bytes read as another type, as [`View::viewed`].
    ///
    /// # Errors
    ///
    /// As [`View::viewed`].
    pub fn viewed(&self, dtype: Dtype) -> Result<Self, Error> {
        Ok(self.sub(self.view().viewed(dtype)?))
    }

    /// The same memory, not to be written through the result.
    #[must_use]
    pub fn as_readonly(&self) -> Self {
        self.sub(self.view().as_readonly())
    }

    /// Marks a fresh lease read-only by contract: its maker never writes the memory again.
    #[must_use]
    pub fn immutable(mut self) -> Self {
        match Arc::get_mut(&mut self.0) {
            Some(inner) => inner.view.set_immutable(),
            None => return self.as_readonly(),
        }
        self
    }

    /// The same memory, to be written through the result although this lease says read-only.
    ///
    /// For consumers that cannot be told, where the user accepts that they could write.
    #[must_use]
    pub fn as_writable_alias(&self) -> Self {
        self.sub(self.view().as_writable())
    }

    /// All bytes from `low` on, as a sub-lease; they must lie in this lease's extent.
    pub(crate) fn bytes(&self, low: u64, bytes: u64) -> Result<Self, Error> {
        let extent = i64::try_from(bytes).map_err(|_| LayoutError::Overflow { axis: 0 })?;
        let layout = Layout::compact(&[extent], Dtype::UINT8)?;
        let place = (self.view().device(), self.view().memory());
        Ok(self.sub(View::new(low, place, Dtype::UINT8, layout, self.view().readonly())?))
    }

    /// Hands the memory out to `who`; it stays alive as long as the export.
    #[must_use]
    pub fn export(&self, who: Name) -> Export {
        let slot = ledger::insert(Kind::Export, who, self.view().extent(), Some(&self.0.slot));
        Export { slot, handed: Handed::counted(self) }
    }

    /// Whether nobody else holds the lease.
    #[must_use]
    pub fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Asks whether nobody else holds the lease, and who does.
    ///
    /// # Errors
    ///
    /// If exports or sub-leases are alive: who holds it.
    pub fn check_unlent(&self) -> Result<(), Error> {
        if self.is_unshared() {
            return Ok(());
        }
        Err(Error::StillLent { holders: ledger::holders(&self.0.slot) })
    }

    /// Ends the lease now, if nobody else holds it.
    ///
    /// # Errors
    ///
    /// If exports or sub-leases are alive: the lease comes back, with who holds it.
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

/// Something that was handed out, or is about to be: its receiver may queue work on the memory until this is dropped.
#[derive(Debug)]
#[must_use = "until the export is made this stands for it"]
pub struct Handed(Lease);

impl Handed {
    /// For a hand-over whose order was seen to otherwise.
    pub fn new(lease: &Lease) -> Self {
        // Before this one counts: what earlier ones noted may be over.
        lease.timeline().map(Timeline::forget_done);
        Self::counted(lease)
    }

    fn counted(lease: &Lease) -> Self {
        lease.timeline().map(Timeline::lend);
        Self(lease.clone())
    }

    /// What is handed out.
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

/// A hand-over out: a clone of the lease and a line in the ledger.
#[derive(Debug)]
pub struct Export {
    slot: Slot,
    handed: Handed,
}

impl Export {
    /// What was handed out.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.handed.0
    }

    /// Which line of the ledger this is, for [`ledger::is_live`].
    pub(crate) fn identity(&self) -> (usize, u64) {
        ledger::identify(&self.slot)
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        ledger::remove(&self.slot);
    }
}

/// Rust types that are element types.
pub trait Element: Copy + Default + Send + 'static {
    /// The element type.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($rust:ty => $name:ident),*) => {
        $(impl Element for $rust {
            const DTYPE: Dtype = Dtype::$name;
        })*
    };
}

elements!(
    i8 => INT8, i16 => INT16, i32 => INT32, i64 => INT64,
    u8 => UINT8, u16 => UINT16, u32 => UINT32, u64 => UINT64,
    f32 => FLOAT32, f64 => FLOAT64
);
