//! The lock and the atomics of a timeline, under names of their own: `tests/loom_timeline` puts loom's in their place.
#![forbid(unsafe_code)]

pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
pub(super) use std::sync::{Mutex, MutexGuard};
