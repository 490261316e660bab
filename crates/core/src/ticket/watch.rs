//! The borrower's watch over lenders whose bytes are still to come.
//!
//! A thread waits for the end of their processes. When one has ended, its numbers will not come: the leases that wait for them are
//! marked as lost, and then the numbers are written here, so that no stream waits for ever.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::error::Error;
use crate::fork::ProcessLock;
use crate::ticket::connection::Connection;
use crate::ticket::flags::Page;
use crate::ticket::folder::failed;

/// A number that a stream of ours waits for.
struct Awaited {
    page: Arc<Page>,
    slot: u32,
    value: u32,
    /// Set to the lender's id if the number will not come.
    lost: Arc<AtomicI32>,
}

/// Numbers of one lender.
struct Lender {
    connection: Arc<Connection>,
    awaited: Vec<Awaited>,
}

struct Watch {
    watched: Option<Arc<Epoll>>,
    lenders: Option<HashMap<u64, Lender>>,
    last: u64,
}

static WATCH: ProcessLock<Watch> =
    ProcessLock::with(Watch { watched: None, lenders: None, last: 0 }, |watch| {
        mem::forget(watch.watched.take());
        mem::forget(watch.lenders.take());
    });

/// Has streams that wait for a number go on if its lender ends. The first call starts the thread.
pub(super) fn watch(
    connection: &Arc<Connection>,
    page: Arc<Page>,
    (slot, value): (u32, u32),
    lost: Arc<AtomicI32>,
) -> Result<(), Error> {
    let system = |error| failed("watching a lender", &error);
    let mut watch = WATCH.lock();
    if watch.watched.is_none() {
        let made = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(system)?;
        let watched = Arc::new(made);
        let for_thread = Arc::clone(&watched);
        let thread = thread::Builder::new().name("gpulend-watch".into());
        thread
            .spawn(move || serve(&for_thread))
            .map_err(|error| failed("starting a thread", &error))?;
        watch.watched = Some(watched);
    }
    let watched = watch.watched.clone();
    let number = watch.last + 1;
    let lenders = watch.lenders.get_or_insert_default();
    let awaited = Awaited { page, slot, value, lost };
    let known = lenders.values_mut().find(|one| Arc::ptr_eq(&one.connection, connection));
    let mut over = Vec::new();
    if let Some(known) = known {
        // Those that have come need no watch.
        let all = mem::take(&mut known.awaited);
        let (come, rest) = all.into_iter().partition(|one| one.page.has(one.slot, one.value));
        (over, known.awaited) = (come, rest);
        known.awaited.push(awaited);
    } else {
        let lender = Lender { connection: Arc::clone(connection), awaited: vec![awaited] };
        lenders.insert(number, lender);
        watch.last = number;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, number);
        if let Some(watched) = watched {
            watched.add(connection.process().as_fd(), event).map_err(system)?;
        }
    }
    drop(watch);
    drop(over);
    Ok(())
}

fn serve(watched: &Epoll) {
    let mut events = [EpollEvent::empty(); 16];
    loop {
        let count = watched.wait(&mut events, EpollTimeout::NONE).unwrap_or(0);
        for event in &events[..count] {
            let ended = WATCH.lock().lenders.as_mut().and_then(|all| all.remove(&event.data()));
            let Some(Lender { connection, awaited }) = ended else { continue };
            // A forked child of it may hold the descriptor, so closing would not end the watch.
            let _ = watched.delete(connection.process().as_fd());
            for one in awaited.iter().filter(|one| !one.page.has(one.slot, one.value)) {
                // First: who is released by the number must find it.
                one.lost.store(connection.pid, Ordering::Release);
                one.page.release(one.slot, one.value);
            }
        }
    }
}
