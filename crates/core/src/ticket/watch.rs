//! The borrower's watch over its lenders: over those whose bytes are still to come, and those whose queues are full.
//!
//! A thread waits for the end of their processes. When one has ended, its numbers will not come: the leases that wait for them are
//! marked as lost, and then the numbers are written here, so that no stream waits for ever.
//!
//! The same thread waits for room in full queues, and sends what could not be sent. Without it a lender would hear of the last
//! claims that ended only with a next message, and there may be none.
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
    /// Connections with a full queue.
    full: Option<HashMap<u64, Arc<Connection>>>,
    last: u64,
}

static WATCH: ProcessLock<Watch> =
    ProcessLock::with(Watch { watched: None, lenders: None, full: None, last: 0 }, |watch| {
        mem::forget(watch.watched.take());
        mem::forget(watch.lenders.take());
        mem::forget(watch.full.take());
    });

impl Watch {
    /// What the thread watches. The first call starts it.
    fn start(&mut self) -> Result<Arc<Epoll>, Error> {
        if let Some(watched) = &self.watched {
            return Ok(Arc::clone(watched));
        }
        let made = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        let watched = Arc::new(made.map_err(|error| failed("watching a lender", &error))?);
        let for_thread = Arc::clone(&watched);
        let thread = thread::Builder::new().name("gpulend-watch".into());
        thread
            .spawn(move || serve(&for_thread))
            .map_err(|error| failed("starting a thread", &error))?;
        self.watched = Some(Arc::clone(&watched));
        Ok(watched)
    }
}

/// Sends what waits in a connection as soon as its queue has room. Failing, it goes with the next message.
pub(super) fn send_later(connection: &Arc<Connection>) -> Result<(), Error> {
    let mut watch = WATCH.lock();
    let watched = watch.start()?;
    let number = watch.last + 1;
    let full = watch.full.get_or_insert_default();
    if full.values().any(|one| Arc::ptr_eq(one, connection)) {
        return Ok(());
    }
    let event = EpollEvent::new(EpollFlags::EPOLLOUT, number);
    let added = watched.add(connection.socket(), event);
    added.map_err(|error| failed("watching a lender", &error))?;
    full.insert(number, Arc::clone(connection));
    watch.last = number;
    Ok(())
}

/// Sends what waits in a connection that has room now. False if it is no such connection.
fn send_rest(watched: &Epoll, number: u64) -> bool {
    let mut watch = WATCH.lock();
    let Some(full) = &mut watch.full else { return false };
    let Some(connection) = full.get(&number) else { return false };
    // Under the lock: who finds the queue full again meanwhile comes after this, and is watched anew.
    let sent = connection.send_unsent().then(|| full.remove(&number)).flatten();
    if let Some(connection) = &sent {
        let _ = watched.delete(connection.socket());
    }
    drop(watch);
    // Perhaps the last: closing it is nothing to do under the lock.
    drop(sent);
    true
}

/// Has streams that wait for a number go on if its lender ends. The first call starts the thread.
pub(super) fn watch(
    connection: &Arc<Connection>,
    page: Arc<Page>,
    (slot, value): (u32, u32),
    lost: Arc<AtomicI32>,
) -> Result<(), Error> {
    let mut watch = WATCH.lock();
    let watched = watch.start()?;
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
        let added = watched.add(connection.process().as_fd(), event);
        added.map_err(|error| failed("watching a lender", &error))?;
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
            if send_rest(watched, event.data()) {
                continue;
            }
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
