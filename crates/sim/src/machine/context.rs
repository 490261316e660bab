//! Contexts: their device, their streams, and what is destroyed with them.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::heap::Heap;
use super::launch::Failure;
use super::operation::OperationId;
use super::stream::{Role, Stream};
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// `CU_CTX_MAP_HOST`: set for every primary context.
pub const MAP_HOST: u32 = 8;
/// The initial limits of a context, in CUDA's order.
const LIMITS: [usize; 10] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0, 0, 0];
/// The flags of `cuCtxCreate`.
pub const FLAGS: u32 = 0xFF;

/// A context.
#[derive(Debug)]
pub struct Context {
    /// Its device.
    pub device: usize,
    /// Whether it is its device's primary one.
    pub primary: bool,
    /// Whether it can be used. A primary context must be retained.
    pub active: bool,
    /// Its flags.
    pub flags: u32,
    /// The limits, in CUDA's order.
    pub limits: [usize; 10],
    /// The preferred cache configuration, only stored.
    pub cache: i32,
    /// The contexts whose memory it may use.
    pub peers: BTreeSet<usize>,
    /// The legacy default stream.
    pub legacy: usize,
    /// The per-thread default streams.
    pub per_thread: HashMap<u64, usize>,
    /// The latest operation of each blocking stream, also of destroyed ones, since the legacy stream's
    /// latest.
    pub blocking: BTreeMap<usize, OperationId>,
    /// The latest operation that all later work waits for.
    pub barrier: Option<OperationId>,
    /// How often `cuCtxAttach` was called.
    pub attached: usize,
    /// The first kernel error that was not reported yet. If errors are sticky, the first of all.
    pub failure: Option<Failure>,
    /// What kernels allocate from, once one of them may.
    pub heap: Option<Arc<Heap>>,
}

impl State {
    /// Returns a usable context.
    ///
    /// # Errors
    ///
    /// `INVALID_CONTEXT`, `CONTEXT_IS_DESTROYED`, a lost device, or a sticky kernel error.
    pub fn context(&self, handle: usize) -> Outcome<&Context> {
        let context = self.contexts.get(handle).ok_or(if self.contexts.was(handle) {
            Status::ERROR_CONTEXT_IS_DESTROYED
        } else {
            Status::ERROR_INVALID_CONTEXT
        })?;
        if !context.active {
            return Err(Status::ERROR_CONTEXT_IS_DESTROYED);
        }
        if self.devices[context.device].lost {
            return Err(Status::ERROR_DEVICE_UNAVAILABLE);
        }
        match &context.failure {
            Some(failure) if self.config.sticky => Err(failure.keep_for_thread()),
            _ => Ok(context),
        }
    }

    /// Returns a usable context, mutable.
    ///
    /// # Errors
    ///
    /// As [`State::context`].
    pub fn context_mut(&mut self, handle: usize) -> Outcome<&mut Context> {
        self.context(handle)?;
        self.contexts.get_mut(handle).ok_or(Status::ERROR_INVALID_CONTEXT)
    }

    /// Creates a context.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn create_context(&mut self, device: usize, flags: u32, primary: bool) -> Outcome<usize> {
        if self.devices[device].lost {
            return Err(Status::ERROR_DEVICE_UNAVAILABLE);
        }
        let handle = self.contexts.add(Context {
            device,
            primary,
            active: true,
            flags,
            limits: LIMITS,
            cache: 0,
            peers: BTreeSet::new(),
            legacy: 0,
            per_thread: HashMap::new(),
            blocking: BTreeMap::new(),
            barrier: None,
            attached: 0,
            failure: None,
            heap: None,
        });
        self.equip(handle);
        Ok(handle)
    }

    /// Creates a context's default stream.
    fn equip(&mut self, handle: usize) {
        let legacy = self.streams.add(Stream::new(handle, Role::Legacy, 0, 0));
        if let Some(context) = self.contexts.get_mut(handle) {
            context.legacy = legacy;
            context.active = true;
        }
    }

    /// Retains the primary context of a device. Creates it if needed.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub fn retain_primary(&mut self, device: usize) -> Outcome<usize> {
        let flags = self.devices[device].flags;
        let handle = match self.devices[device].primary {
            Some(handle) => handle,
            None => self.create_context(device, flags | MAP_HOST, true)?,
        };
        if self.devices[device].lost {
            return Err(Status::ERROR_DEVICE_UNAVAILABLE);
        }
        self.devices[device].primary = Some(handle);
        if self.contexts.get(handle).is_some_and(|context| !context.active) {
            self.equip(handle);
            self.context_mut(handle)?.flags = flags | MAP_HOST;
        }
        self.devices[device].retained += 1;
        Ok(handle)
    }

    /// Destroys everything in a context. Its work is complete already.
    fn strip(&mut self, caller: &Caller, handle: usize) {
        let modules: Vec<usize> = self
            .modules
            .iter()
            .filter(|(_, module)| module.context == handle)
            .map(|(module, _)| module)
            .collect();
        for module in modules {
            self.end_module(caller, module);
        }
        let links = self.links.iter().filter(|(_, link)| link.context == handle);
        for link in links.map(|(link, _)| link).collect::<Vec<usize>>() {
            self.links.remove(link);
        }
        let gone: Vec<usize> = self
            .memory
            .iter()
            .filter(|(_, allocation)| {
                allocation.context == handle
                    && allocation.kind.pool().is_none()
                    && !(matches!(allocation.kind, super::memory::Kind::Imported { .. })
                        && allocation.kind.is_allocated())
            })
            .map(|(base, _)| base)
            .collect();
        for base in gone {
            self.end_allocation(caller, base);
        }
        self.end_arrays(handle);
        self.end_textures(handle);
        self.end_heap(handle);
        let streams: Vec<usize> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.context == handle)
            .map(|(stream, _)| stream)
            .collect();
        for stream in streams {
            self.forget_capture(caller, stream);
            self.streams.remove(stream);
        }
        let events: Vec<usize> = self
            .events
            .iter()
            .filter(|(_, event)| event.context == handle)
            .map(|(event, _)| event)
            .collect();
        for event in events {
            if let Some(shared) = self.events.remove(event).and_then(|event| event.shared) {
                self.end_shared_event(&shared);
            }
        }
        if let Some(context) = self.contexts.get_mut(handle) {
            context.active = false;
            (context.limits, context.cache, context.barrier) = (LIMITS, 0, None);
            context.failure = None;
            context.per_thread.clear();
            context.blocking.clear();
            context.peers.clear();
        }
    }
}

impl Machine {
    /// Runs the work of a context and then destroys the context, unless `still` is false by then.
    ///
    /// # Errors
    ///
    /// `INVALID_CONTEXT`.
    pub fn destroy_context(
        &self,
        caller: &Caller,
        handle: usize,
        still: impl Fn(&State) -> bool,
    ) -> Outcome<()> {
        loop {
            let mut state = self.lock();
            let context = state.contexts.get(handle).ok_or(Status::ERROR_INVALID_CONTEXT)?;
            let keep = context.primary;
            let goals = state.uses_of(handle);
            if goals.is_empty() {
                if still(&state) {
                    state.strip(caller, handle);
                    if !keep && let Some(gone) = state.contexts.remove(handle) {
                        state.devices_of_gone.insert(handle, gone.device);
                    }
                }
                return Ok(());
            }
            drop(state);
            // On a lost device there is nothing to wait for.
            let _ = self.finish(caller, &goals);
        }
    }

    /// Releases a primary context once; the last release destroys it.
    ///
    /// # Errors
    ///
    /// `INVALID_CONTEXT` if it is not retained.
    pub fn release_primary(&self, caller: &Caller, device: usize) -> Outcome<()> {
        let mut state = self.lock();
        let found = &mut state.devices[device];
        if found.retained == 0 {
            return Err(Status::ERROR_INVALID_CONTEXT);
        }
        found.retained -= 1;
        let (left, primary) = (found.retained, found.primary);
        drop(state);
        match primary {
            // Another thread may have retained it again by then.
            Some(handle) if left == 0 => {
                self.destroy_context(caller, handle, |state| state.devices[device].retained == 0)
            }
            _ => Ok(()),
        }
    }

    /// Destroys a primary context, even if it is retained.
    ///
    /// # Errors
    ///
    /// None that hold back the next call.
    pub fn reset_primary(&self, caller: &Caller, device: usize) -> Outcome<()> {
        let state = self.lock();
        let active = state.devices[device].primary.filter(|_| state.primary_is_active(device));
        drop(state);
        active.map_or(Ok(()), |handle| self.destroy_context(caller, handle, |_| true))
    }

    /// Waits for all work of a context.
    ///
    /// # Errors
    ///
    /// As `cuCtxSynchronize`.
    pub fn synchronize_context(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.context(handle)?;
        state.refuse_in_context(caller, handle)?;
        let goals = state.queued_in(handle);
        drop(state);
        self.finish(caller, &goals)?;
        let mut state = self.lock();
        state.trim_pools();
        state.report_failure(caller, handle)
    }
}

impl State {
    /// Returns whether the primary context of a device is active.
    #[must_use]
    pub fn primary_is_active(&self, device: usize) -> bool {
        let primary = self.devices[device].primary.and_then(|handle| self.contexts.get(handle));
        primary.is_some_and(|context| context.active)
    }

    /// Returns the device of a context, even of a destroyed one.
    #[must_use]
    pub fn device_of(&self, context: usize) -> Option<usize> {
        self.contexts
            .get(context)
            .map(|found| found.device)
            .or_else(|| self.devices_of_gone.get(&context).copied())
    }

    /// Returns the operations that use a context or its memory.
    fn uses_of(&self, context: usize) -> Vec<OperationId> {
        let mut found = self.queued_in(context);
        let own = self.memory.iter().filter(|(_, allocation)| allocation.context == context);
        found.extend(own.flat_map(|(_, allocation)| allocation.users.iter().copied()));
        found
    }

    /// Returns the operations of a context that are not complete.
    #[must_use]
    pub fn queued_in(&self, context: usize) -> Vec<u64> {
        self.schedule
            .iter()
            .filter(|(_, operation)| operation.context == context)
            .map(|(id, _)| id)
            .collect()
    }
}
