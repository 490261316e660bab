//! Who holds what, until when: leases, sub-leases and exports over threads, forks and copies.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod oracle;

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use gpulend::export::dlpack::Receiver;
use gpulend::ledger::{self, Entry, Kind, Name};
use gpulend::{Dtype, Error, Index, Layout, LayoutError, Lease, Owner, View, export, import};
use oracle::{config, offsets};
use proptest::prelude::*;

/// `gpulend::copy` for tests, which have their memory to themselves.
mod copy {
    use gpulend::{Element, Error, Lease, copy};

    pub(crate) fn to_vec<T: Element>(from: &Lease) -> Result<Vec<T>, Error> {
        // SAFETY: (1) nobody else writes a test's memory.
        unsafe { copy::to_vec(from) }
    }

    pub(crate) fn duplicate(from: &Lease) -> Result<Lease, Error> {
        // SAFETY: (1) nobody else writes a test's memory.
        unsafe { copy::duplicate(from) }
    }

    pub(crate) fn copy(from: &Lease, to: &Lease) -> Result<(), Error> {
        // SAFETY: (1) and (2) nobody else touches a test's memory.
        unsafe { copy::copy(from, to) }
    }
}

const THREADS: usize = if cfg!(miri) { 4 } else { 32 };
const ROUNDS: usize = if cfg!(miri) { 4 } else { 500 };

/// Every second element.
const EVEN: Index = Index::Slice { start: None, stop: None, step: Some(2) };

/// A lease of 8 float32 under a name of its own, and how often it was released.
fn lease_named(who: &str) -> (Lease, Arc<AtomicUsize>) {
    let released = Arc::new(AtomicUsize::new(0));
    let mut memory = vec![0.0_f32; 8];
    let address = memory.as_mut_ptr().expose_provenance() as u64;
    let layout = Layout::compact(&[8], Dtype::FLOAT32).unwrap();
    let view = View::host(address, Dtype::FLOAT32, layout, false).unwrap();
    let count = Arc::clone(&released);
    let owner = Owner::call(move || {
        drop(memory);
        count.fetch_add(1, Ordering::SeqCst);
    });
    // SAFETY: the owner keeps the memory, and no test writes it from two threads at once.
    let lease = unsafe { import::raw::wrap(view, owner, Name::intern(who)) };
    (lease, released)
}

/// The lines of the ledger that `who` is the root of, found by a name that no other test uses.
fn lines(who: &str) -> Vec<Entry> {
    let mut entries = ledger::snapshot().entries;
    let mut tree: HashSet<u64> =
        entries.iter().filter(|entry| *entry.who == *who).map(|entry| entry.serial).collect();
    // Oldest first, so a parent is known before what hangs on it.
    entries.retain(|entry| {
        tree.contains(&entry.of) && {
            tree.insert(entry.serial);
            true
        }
    });
    entries
}

fn kinds(who: &str) -> Vec<Kind> {
    lines(who).iter().map(|entry| entry.kind).collect()
}

fn holders(error: Error) -> String {
    match error {
        Error::StillLent { holders } => holders.into(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_program_cannot_fill_the_ledger_with_names() {
    let mut last = Name::UNKNOWN;
    for number in 0..5000 {
        last = Name::intern_passing(&format!("class {number}"));
    }
    assert_eq!(last, Name::UNKNOWN);
    assert_eq!(&*Name::intern_passing("class 7").text(), "class 7");
    assert_eq!(&*Name::intern("a name of our own").text(), "a name of our own");
    let long = "ä".repeat(1000);
    assert!(Name::intern_passing(&long).text().len() <= 256);
}

#[test]
fn the_ledger_shows_what_is_held_and_forgets_what_is_not() {
    let who = "a lease that is looked at";
    let (lease, released) = lease_named(who);
    let slice = lease.index(&[EVEN]).unwrap();
    let export = slice.export(Name::intern("somebody who looks"));
    let found = lines(who);
    let kinds_found: Vec<Kind> = found.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds_found, [Kind::Lease, Kind::SubLease, Kind::Export]);
    assert_eq!(found[0].of, found[0].serial);
    assert_eq!((found[1].of, found[2].of), (found[0].serial, found[1].serial));
    assert_eq!((found[0].nbytes, found[1].nbytes, found[2].nbytes), (32, 28, 28));
    assert!(found.iter().all(|entry| entry.address == lease.view().address()));
    assert!(found.iter().all(|entry| entry.age < Duration::from_secs(600)));
    assert_eq!(&*found[2].who, "somebody who looks");
    drop(export);
    assert_eq!(kinds(who), [Kind::Lease, Kind::SubLease]);
    drop(slice);
    assert_eq!((kinds(who), released.load(Ordering::SeqCst)), (vec![Kind::Lease], 0));
    lease.release().unwrap();
    assert_eq!((lines(who).len(), released.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn a_lease_that_a_consumer_keeps_is_an_export_to_it() {
    let (lease, released) = lease_named("a lease for a consumer");
    let lent = lease.lent_to(Name::intern("a consumer that keeps it"));
    let (lease, error) = lease.release().unwrap_err();
    assert_eq!(holders(error), "a consumer that keeps it");
    assert!(lent.is_unshared());
    drop(lease);
    assert_eq!(released.load(Ordering::SeqCst), 0);
    lent.release().unwrap();
    assert_eq!(released.load(Ordering::SeqCst), 1);
}

#[test]
fn another_owner_is_released_after_a_lease_s_own() {
    for shared in [false, true] {
        let (lease, released) = lease_named("a lease with two owners");
        let clone = shared.then(|| lease.clone());
        let (count, other) = (Arc::clone(&released), Arc::new(AtomicUsize::new(0)));
        let after = Arc::clone(&other);
        let lease = lease.keeping(Owner::call(move || {
            after.store(1 + count.load(Ordering::SeqCst), Ordering::SeqCst);
        }));
        drop(clone);
        assert_eq!((released.load(Ordering::SeqCst), other.load(Ordering::SeqCst)), (0, 0));
        lease.release().unwrap();
        assert_eq!((released.load(Ordering::SeqCst), other.load(Ordering::SeqCst)), (1, 2));
    }
}

#[test]
fn a_lease_that_is_lent_names_its_holders() {
    let (lease, released) = lease_named("a lease with holders");
    let torch = Name::intern("torch, for this test");
    let one = lease.export(torch);
    let (lease, error) = lease.release().unwrap_err();
    assert_eq!(holders(error), "torch, for this test");
    let two = lease.export(torch);
    let rows = lease.reshaped(&[2, 4]).unwrap();
    // The order is that of slots in the ledger, which other tests share.
    let found = holders(lease.check_unlent().unwrap_err());
    let found: HashSet<&str> = found.split(" and ").collect();
    let both = ["torch, for this test (2 times)", "a sub-lease (a slice or view)"];
    assert_eq!(found, HashSet::from(both));
    let columns = rows.transposed();
    drop((one, two));
    let (lease, error) = lease.release().unwrap_err();
    assert_eq!(holders(error), "a sub-lease (a slice or view)");
    let (rows, error) = rows.release().unwrap_err();
    assert_eq!(holders(error), "a sub-lease (a slice or view)");
    drop(columns);
    rows.release().unwrap();
    let clone = lease.clone();
    let (lease, error) = lease.release().unwrap_err();
    assert_eq!(holders(error), "a call in progress");
    drop(clone);
    lease.check_unlent().unwrap();
    lease.release().unwrap();
    assert_eq!(released.load(Ordering::SeqCst), 1);
}

#[test]
fn a_sub_lease_outlives_the_lease_it_was_taken_from() {
    let lease = Lease::from_vec((0_u16..12).collect()).unwrap();
    let rows = lease.reshaped(&[3, 4]).unwrap();
    drop(lease);
    let corner = rows.index(&[Index::At(-1), EVEN]).unwrap();
    drop(rows);
    let read = thread::spawn(move || copy::to_vec::<u16>(&corner).unwrap()).join().unwrap();
    assert_eq!(read, [8, 10]);
}

#[test]
fn read_only_is_inherited_until_it_is_waived() {
    let (lease, _) = lease_named("a read-only lease");
    let constant = lease.as_readonly();
    assert!(constant.index(&[EVEN]).unwrap().view().readonly());
    assert!(constant.transposed().view().readonly());
    assert!(constant.reshaped(&[2, 4]).unwrap().view().readonly());
    assert!(constant.viewed(Dtype::UINT8).unwrap().view().readonly());
    assert!(copy::copy(&lease, &constant).is_err());
    assert!(copy::copy(&lease, &constant.as_writable_alias()).is_ok());
    assert!(!lease.view().readonly());
}

#[test]
fn many_threads_export_and_drop_and_nothing_is_left() {
    let who = "a lease of many threads";
    let (lease, released) = lease_named(who);
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (lease, start) = (lease.clone(), &start);
            scope.spawn(move || {
                let name = Name::intern(&format!("thread {number}"));
                start.wait();
                for round in 0..ROUNDS {
                    let slice = lease.index(&[EVEN]).unwrap();
                    let export = slice.export(name);
                    let tensor =
                        export::dlpack::to_versioned(&slice, Receiver::of_host(name), false);
                    // SAFETY: the tensor is fresh and ours.
                    let deleter = unsafe { (*tensor).header.deleter }.unwrap();
                    drop(slice);
                    assert!(export.lease().check_unlent().is_err());
                    if round % 2 == 0 {
                        drop(export);
                        // SAFETY: released here and nowhere else.
                        unsafe { deleter(tensor) }
                    } else {
                        // SAFETY: as above.
                        unsafe { deleter(tensor) }
                        drop(export);
                    }
                    if round % 64 == 0 {
                        assert!(lines(who).len() <= 1 + 3 * THREADS);
                    }
                }
            });
        }
    });
    assert_eq!(kinds(who), [Kind::Lease]);
    lease.release().unwrap();
    assert_eq!((lines(who).len(), released.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn of_many_releases_at_once_exactly_one_is_the_last() {
    for _ in 0..ROUNDS.min(100) {
        let (lease, released) = lease_named("a lease released by all");
        let start = Barrier::new(4);
        let clones = [lease.clone(), lease.clone(), lease.clone(), lease];
        thread::scope(|scope| {
            for clone in clones {
                scope.spawn(|| {
                    start.wait();
                    drop(clone.release());
                });
            }
        });
        assert_eq!(released.load(Ordering::SeqCst), 1);
    }
    assert_eq!(lines("a lease released by all").len(), 0);
}

#[test]
fn a_release_that_panics_stays_behind_the_deleter() {
    let layout = Layout::compact(&[0], Dtype::UINT8).unwrap();
    let view = View::host(0, Dtype::UINT8, layout, false).unwrap();
    let owner = Owner::call(|| panic!("an owner that panics on purpose"));
    // SAFETY: there is no byte to read.
    let lease = unsafe { import::raw::wrap(view, owner, Name::intern("a lease that panics")) };
    let tensor = export::dlpack::to_versioned(&lease, Receiver::of_host(Name::UNKNOWN), false);
    drop(lease);
    // SAFETY: the tensor is fresh and ours.
    let deleter = unsafe { (*tensor).header.deleter }.unwrap();
    // SAFETY: released here and nowhere else.
    unsafe { deleter(tensor) }
    assert_eq!(lines("a lease that panics").len(), 0);
}

/// Forks while other threads use the ledger, and has the child use it too.
///
/// `hammer` runs on another thread until the last child has ended.
fn fork_while(hammer: impl Fn() + Sync, child: impl Fn()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                hammer();
            }
        });
        let failed = (0..100).find_map(|_| fork_once(&child).err());
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failed, None);
    });
}

/// Runs `child` in a forked process, for ten seconds at most.
fn fork_once(child: impl Fn()) -> Result<(), String> {
    // SAFETY: the child takes locks that fork handlers left open, allocates (which glibc
    // allows there), and ends by `_exit` without returning to the test harness.
    let process = unsafe { libc::fork() };
    if process == 0 {
        child();
        // SAFETY: ends the child, with no handlers of the parent run.
        unsafe { libc::_exit(0) }
    }
    let since = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the process is our child, and `status` is ours to write.
        let ended = unsafe { libc::waitpid(process, &raw mut status, libc::WNOHANG) };
        if ended == process {
            return if status == 0 { Ok(()) } else { Err(format!("status {status:#x}")) };
        }
        if since.elapsed() > Duration::from_secs(10) {
            // SAFETY: the process is our child, which has not been waited for.
            unsafe { libc::kill(process, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(process, &raw mut status, 0) };
            return Err("the child hangs".to_owned());
        }
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn a_forked_child_finds_the_ledger_open() {
    let (lease, _) = lease_named("a lease that is forked");
    let who = Name::intern("somebody in a forked child");
    fork_while(
        || drop(lease.export(who)),
        || {
            let before = ledger::live();
            let export = lease.export(who);
            let more = ledger::live();
            drop(export);
            if more != before + 1 || ledger::live() != before {
                // SAFETY: ends the child, where a panic would meet the harness of the parent.
                unsafe { libc::_exit(1) }
            }
        },
    );
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn a_forked_child_releases_host_memory() {
    let (lease, released) = lease_named("a lease that is released in a child");
    let lease = Cell::new(Some(lease));
    let ended = fork_once(|| {
        let lease = lease.take().unwrap();
        let read = copy::to_vec::<f32>(&lease).is_ok_and(|elements| elements == [0.0; 8]);
        if !read || lease.release().is_err() || released.load(Ordering::SeqCst) != 1 {
            // SAFETY: as above.
            unsafe { libc::_exit(1) }
        }
    });
    assert_eq!(ended, Ok(()));
    assert_eq!(released.load(Ordering::SeqCst), 0, "the child has a copy of its own");
    lease.take().unwrap().release().unwrap();
    assert_eq!(released.load(Ordering::SeqCst), 1);
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn a_forked_child_finds_the_names_open() {
    let (lease, _) = lease_named("a lease that is forked with its name");
    let hammer = || {
        let _ = Name::intern("a name that everybody knows");
    };
    fork_while(hammer, || {
        let export = lease.export(Name::intern("a name that only a child knows"));
        drop((ledger::snapshot(), export));
    });
}

#[test]
fn a_copy_of_packed_elements_leaves_their_neighbours() {
    let four: Dtype = "uint4".parse().unwrap();
    let nibbles = |byte: u8| {
        let bytes = Lease::from_vec(vec![byte; 4]).unwrap();
        (bytes.viewed(four).unwrap(), bytes)
    };
    let first_three = Index::Slice { start: None, stop: Some(3), step: None };
    let ((source, _), (target, bytes)) = (nibbles(0xff), nibbles(0x00));
    copy::copy(&source.index(&[first_three]).unwrap(), &target.index(&[first_three]).unwrap())
        .unwrap();
    assert_eq!(copy::to_vec::<u8>(&bytes).unwrap(), [0xff, 0x0f, 0, 0]);
}

#[test]
fn an_overlapping_copy_of_packed_elements_reads_all_before_it_writes() {
    let four: Dtype = "uint4".parse().unwrap();
    let part = |start, stop| Index::Slice { start: Some(start), stop: Some(stop), step: None };
    let bytes = Lease::from_vec(vec![0x10_u8, 0x32, 0x54, 0x76]).unwrap();
    let nibbles = bytes.viewed(four).unwrap();
    let (source, target) = (nibbles.index(&[part(0, 5)]), nibbles.index(&[part(2, 7)]));
    copy::copy(&source.unwrap(), &target.unwrap()).unwrap();
    assert_eq!(copy::to_vec::<u8>(&bytes).unwrap(), [0x10, 0x10, 0x32, 0x74]);
}

/// Where a view begins in a row of elements, and its strides.
fn placements() -> impl Strategy<Value = (Vec<i64>, [Vec<i64>; 2], [i64; 2])> {
    prop::collection::vec((0_i64..4, [-9_i64..10, -9_i64..10]), 0..4).prop_flat_map(|axes| {
        let shape: Vec<i64> = axes.iter().map(|axis| axis.0).collect();
        let strides = [0, 1].map(|side| axes.iter().map(|axis| axis.1[side]).collect());
        (Just(shape), Just(strides), [90_i64..110, 90_i64..110])
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_copy_reads_all_before_it_writes((shape, strides, first) in placements(), apart in any::<bool>()) {
        let before: Vec<u16> = (0..200).collect();
        let whole = Lease::from_vec(before.clone()).unwrap();
        let other = Lease::from_vec(before.clone()).unwrap();
        let part = |of: &Lease, side: usize| {
            let layout = Layout::new(&shape, &strides[side], Dtype::UINT16).unwrap();
            let address = of.view().address() + 2 * first[side].unsigned_abs();
            let view = View::host(address, Dtype::UINT16, layout, false).unwrap();
            // SAFETY: 3 axes of 3 steps of 9 stay within 81 of the first element; the
            // owner keeps the whole.
            unsafe { import::raw::wrap(view, Owner::keep(of.clone()), Name::UNKNOWN) }
        };
        let (source, target) = (part(if apart { &other } else { &whole }, 0), part(&whole, 1));
        let at = |side: usize| -> Vec<usize> {
            let elements = offsets(&shape, &strides[side]);
            elements.iter().map(|at| usize::try_from(at + first[side]).unwrap()).collect()
        };
        let mut expected = before.clone();
        for (from, to) in at(0).into_iter().zip(at(1)) {
            expected[to] = before[from];
        }
        let repeats = at(1).iter().collect::<HashSet<_>>().len() != at(1).len();
        let read: Vec<u16> = at(0).into_iter().map(|from| before[from]).collect();
        prop_assert_eq!(copy::to_vec::<u16>(&source).unwrap(), read.clone());
        prop_assert_eq!(copy::to_vec::<u16>(&copy::duplicate(&source).unwrap()).unwrap(), read);
        let copied = copy::copy(&source, &target);
        match copied {
            Ok(()) => {
                prop_assert!(!repeats);
                prop_assert_eq!(copy::to_vec::<u16>(&whole).unwrap(), expected);
            }
            Err(error) => {
                prop_assert_eq!(error, Error::from(LayoutError::Overlap));
                prop_assert!(target.view().layout().may_overlap());
                prop_assert_eq!(copy::to_vec::<u16>(&whole).unwrap(), before.clone());
            }
        }
        prop_assert_eq!(copy::to_vec::<u16>(&other).unwrap(), before);
    }
}
