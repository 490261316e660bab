//! Blocks without a lease, and streams that end before their blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpulend::driver::{Known, passport};
use gpulend::import::raw;
use gpulend::ledger::Name;
use gpulend::stream::{Capturing, Mode, Ready, Stream};
use gpulend::{Dtype, Lease, Owner, pool};

use super::{DEVICE, MIB, alone, bytes, fill, on, range, read, settle};

/// A lease of a block's memory, for work on a stream, that does not keep the block.
fn wrapped(block: &pool::Block, stream: &Stream) -> Lease {
    let claim = raw::Claim {
        address: block.address(),
        shape: &[i64::try_from(block.bytes()).unwrap()],
        strides: None,
        dtype: Dtype::UINT8,
        device: Some(DEVICE),
        readonly: false,
        check: true,
    };
    let (ready, who) = (Ready::On(stream.clone()), Name::intern("a test"));
    // SAFETY: the tests keep the block until its work is queued.
    unsafe { raw::wrap_checked(claim.verify().unwrap(), Owner::nobody, Some(ready), who) }.unwrap()
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_block_without_a_lease_is_counted_refused_when_freed_and_used_again() {
    let _turn = alone();
    let stream = Stream::create(0, false).unwrap();
    let source = pool::Source::on(&stream).unwrap();
    let block = source.allocate(5000).unwrap();
    let (address, lines) = (block.address(), gpulend::ledger::live());
    assert_eq!((block.bytes(), block.device()), (5120, 0));
    let known = passport(address + 5119).unwrap().unwrap();
    assert_eq!((known.known, known.base, known.size), (Known::PoolBlock, address, 5120));
    let users = pool::usage(0).users;
    assert_eq!((users[pool::User::Block as usize], users[0]), (5120, 0));
    drop(block);
    assert_eq!(passport(address).unwrap_err().code(), 406);
    let block = pool::allocate(5000, &stream).unwrap();
    assert_eq!(block.address(), address);
    assert_ne!(passport(address).unwrap().unwrap().buffer_id, known.buffer_id);
    // A lease of it is a line of the ledger and counts as one.
    assert_eq!(gpulend::ledger::live(), lines);
    let lease = block.lease(&[1280], Dtype::FLOAT32).unwrap();
    assert_eq!((gpulend::ledger::live(), range(&lease).start), (lines + 1, address));
    assert_eq!(pool::usage(0).users[0], 5120);
    drop(lease);
    assert_eq!((pool::usage(0).live, pool::usage(0).users), (0, [0; 5]));
    // One that is too long for it is refused, and the block is given back.
    let block = source.allocate(5000).unwrap();
    assert_eq!(block.lease(&[1281], Dtype::FLOAT32).unwrap_err().code(), 408);
    assert_eq!(pool::usage(0).live, 0);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_block_that_outlives_its_stream_is_not_used_before_the_streams_work_is_done() {
    let _turn = alone();
    let other = Stream::create(0, false).unwrap();
    for round in 0..20 {
        let (bytes, stream) = (if round % 2 == 0 { 4096 } else { MIB }, Stream::create(0, false));
        let stream = stream.unwrap();
        let block = pool::allocate(bytes, &stream).unwrap();
        let address = block.address();
        let late = wrapped(&block, &stream);
        on(&stream, || fill(&late, 0xAA)).unwrap();
        // The work is late; the stream is destroyed when it is done.
        drop((late, stream));
        if round % 2 == 0 {
            // Afterwards the block is everybody's, and not that of a stream that took the queue.
            gpulend::stream::synchronize(0).unwrap();
            sleep(Duration::from_millis(2));
            let new = Stream::create(0, false).unwrap();
            let held = pool::allocate(bytes, &new).unwrap();
            drop(block);
            let end = Instant::now() + Duration::from_secs(5);
            let mut others = vec![held];
            while others.iter().all(|block| block.address() != address) {
                assert!(Instant::now() < end, "nobody gets the block");
                others.push(pool::allocate(bytes, &other).unwrap());
                sleep(Duration::from_millis(1));
            }
            continue;
        }
        drop(block);
        let lease = pool::allocate(MIB, &other).unwrap().lease(&[1 << 20], Dtype::UINT8).unwrap();
        on(&other, || fill(&lease, 0x55)).unwrap();
        other.synchronize().unwrap();
        gpulend::stream::synchronize(0).unwrap();
        assert!(read(&lease).unwrap().iter().all(|byte| *byte == 0x55));
        drop(lease);
        settle();
        pool::trim(0, 0).unwrap();
    }
}

/// A stream that lives as long as an object, and whether the object is gone.
fn kept() -> (Stream, Arc<AtomicBool>) {
    let (own, gone) = (Stream::create(0, false).unwrap(), Arc::new(AtomicBool::new(false)));
    let (number, flag) = (own.handle().0, Arc::clone(&gone));
    let keeper = Owner::call(move || {
        flag.store(true, Ordering::Relaxed);
        drop(own);
    });
    // SAFETY: the keeper keeps it.
    (unsafe { Stream::foreign(0, number, Some(keeper)) }, gone)
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_stream_object_uses_its_own_blocks_again_at_once_and_lives_until_they_are_everybodys() {
    let _turn = alone();
    let (stream, gone) = kept();
    for round in 0..20 {
        let lease = on(&stream, || bytes(20 * MIB)).unwrap();
        on(&stream, || fill(&lease, round)).unwrap();
    }
    assert_eq!(pool::usage(0).reserved, 20 * MIB, "the work of all rounds is late");
    let other = Stream::create(0, false).unwrap();
    let taken = on(&other, || bytes(20 * MIB)).unwrap();
    on(&other, || fill(&taken, 0x55)).unwrap();
    // The handle is nobody else's as long as blocks wait for its work.
    drop(stream);
    assert!(!gone.load(Ordering::Relaxed));
    gpulend::stream::synchronize(0).unwrap();
    assert!(read(&taken).unwrap().iter().all(|byte| *byte == 0x55));
    let end = Instant::now() + Duration::from_secs(20);
    while !gone.load(Ordering::Relaxed) {
        assert!(Instant::now() < end);
        sleep(Duration::from_micros(300));
    }
    drop(taken);
    settle();
    pool::trim(0, 0).unwrap();
    assert_eq!(pool::usage(0).reserved, 0);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn the_end_of_earlier_work_says_nothing_about_a_block_that_was_freed_later() {
    let _turn = alone();
    let ((stream, _), other) = (kept(), Stream::create(0, false).unwrap());
    let make = |count: u64, fills: u8| {
        let lease = on(&stream, || bytes(count)).unwrap();
        (0..fills).for_each(|value| on(&stream, || fill(&lease, value)).unwrap());
        range(&lease).start
    };
    let early = make(20 * MIB, 1);
    // The reaper marks the work of now; what follows takes many steps.
    sleep(Duration::from_millis(5));
    let late = make(24 * MIB, 100);
    let mut seen = false;
    for _ in 0..10 {
        // One step of the simulated GPU.
        let _ = stream.is_idle().unwrap();
        sleep(Duration::from_millis(2));
        let [one, two] = [20, 24].map(|size| on(&other, || bytes(size * MIB)).unwrap());
        seen |= range(&one).start == early;
        assert_ne!(range(&two).start, late, "its work is not done");
    }
    assert!(seen, "the first block's work was done");
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn inside_a_capture_a_source_gives_no_block_that_still_has_work() {
    let _turn = alone();
    let stream = Stream::create(0, false).unwrap();
    let source = pool::Source::on(&stream).unwrap();
    let block = source.allocate(MIB).unwrap();
    let address = block.address();
    let late = wrapped(&block, &stream);
    on(&stream, || fill(&late, 1)).unwrap();
    drop((late, block));
    let capturing = Capturing::begin(stream.clone(), Mode::ThreadLocal).unwrap();
    let inside = source.allocate(MIB).unwrap();
    assert_ne!(inside.address(), address);
    capturing.end().unwrap();
    // Given back after all work of the device, not in the order of the stream that captured.
    let address = inside.address();
    drop(inside);
    assert_ne!(source.allocate(MIB).unwrap().address(), address);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn inside_a_capture_a_busy_streams_block_is_given_after_its_work() {
    let _turn = alone();
    let [busy, stream] = [(); 2].map(|()| Stream::create(0, false).unwrap());
    pool::set_limit(0, Some(32 * MIB)).unwrap();
    let mut all: Vec<Lease> = (0..32).map(|_| on(&busy, || bytes(MIB)).unwrap()).collect();
    let last = all.pop().unwrap();
    on(&busy, || fill(&last, 1)).unwrap();
    let done = busy.record().unwrap();
    let address = range(&last).start;
    drop(last);
    let capturing = Capturing::begin(stream.clone(), Mode::ThreadLocal).unwrap();
    let inside = pool::allocate(MIB, &stream).unwrap();
    // A graph may be launched on any stream, and none would wait for the fill.
    assert!(done.has_happened().unwrap());
    assert_eq!(inside.address(), address);
    capturing.end().unwrap();
}
