//! gpulend's own pool on the simulated GPU: random programs against a naive oracle, injected faults, out of memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocks;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpulend::driver::{Known, Settings, passport, set_faults, simulate};
use gpulend::stream::{Stream, enter, leave};
use gpulend::{Device, DeviceKind, Dtype, Error, Lease, copy, pool};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const DEVICE: Device = Device::new(DeviceKind::Cuda, 0);

/// The pool of the process, for one test at a time, empty and without a limit.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    simulate(&Settings { memory: Some(256 * MIB), ..Settings::default() }).unwrap();
    pool::set_mode(pool::Mode::On);
    set_faults("").unwrap();
    pool::set_limit(0, None).unwrap();
    settle();
    pool::trim(0, 0).unwrap();
    pool::reset_peak(0);
    let usage = pool::usage(0);
    assert_eq!((usage.live, usage.cached, usage.reserved, usage.segments), (0, 0, 0, 0));
    turn
}

/// Waits until the reaper has released everything.
fn settle() {
    let end = Instant::now() + Duration::from_secs(20);
    while pool::usage(0).live > 0 || gpulend::ledger::snapshot().waiting > 0 {
        assert!(Instant::now() < end, "{:?}", pool::usage(0));
        gpulend::stream::synchronize(0).unwrap();
        sleep(Duration::from_micros(300));
    }
}

fn on<R>(stream: &Stream, work: impl FnOnce() -> R) -> R {
    enter(stream.clone());
    let result = work();
    leave(stream);
    result
}

fn bytes(count: u64) -> Result<Lease, Error> {
    pool::empty(&[i64::try_from(count).unwrap()], Dtype::UINT8, DEVICE)
}

/// The same by a block of a source.
fn leased(count: u64, stream: &Stream) -> Result<Lease, Error> {
    let block = pool::Source::on(stream)?.allocate(count)?;
    block.lease(&[i64::try_from(count).unwrap()], Dtype::UINT8)
}

fn fill(lease: &Lease, value: u8) -> Result<(), Error> {
    // SAFETY: nobody else uses the memory outside of the streams that the lease knows.
    unsafe { copy::fill(lease, &[value]) }
}

fn read(lease: &Lease) -> Result<Vec<u8>, Error> {
    // SAFETY: as above.
    unsafe { copy::to_vec::<u8>(lease) }
}

fn range(lease: &Lease) -> Range<u64> {
    let (low, bytes) = lease.view().extent();
    low..low + bytes
}

/// One step of a random program.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Allocate on a stream, and fill there; as a block first, which becomes a lease.
    Make { stream: usize, bytes: u64, block: bool },
    /// Take a block that stays without a lease.
    Hold { stream: usize, bytes: u64 },
    /// Drop an array, though its work may not be done.
    Free { which: usize },
    /// Copy an array on another stream into a new one there.
    Copy { which: usize, stream: usize },
    /// Fill an array anew on another stream.
    Fill { which: usize, stream: usize },
    /// Wait for a stream.
    Wait { stream: usize },
    /// Give back what is cached.
    Trim { keep: u64 },
    /// Destroy a stream and create another in its place.
    Renew { stream: usize },
    /// Read an array.
    Read { which: usize },
}

const STREAMS: usize = 4;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stream = 0..STREAMS;
    let size = prop_oneof![
        4 => 1..5000_u64,
        2 => Just(4096),
        2 => 100_000..600_000_u64,
        1 => Just(MIB),
        1 => MIB..5 * MIB,
        1 => Just(18 * MIB),
    ];
    let make = (stream.clone(), size.clone(), any::<bool>())
        .prop_map(|(stream, bytes, block)| Step::Make { stream, bytes, block });
    let hold = (stream.clone(), size).prop_map(|(stream, bytes)| Step::Hold { stream, bytes });
    let which = 0..1000_usize;
    prop::collection::vec(
        prop_oneof![
            8 => make,
            2 => hold,
            6 => which.clone().prop_map(|which| Step::Free { which }),
            2 => (which.clone(), stream.clone()).prop_map(|(which, stream)| Step::Copy { which, stream }),
            2 => (which.clone(), stream.clone()).prop_map(|(which, stream)| Step::Fill { which, stream }),
            1 => stream.clone().prop_map(|stream| Step::Wait { stream }),
            1 => prop_oneof![Just(0), Just(MIB)].prop_map(|keep| Step::Trim { keep }),
            1 => (1..STREAMS).prop_map(|stream| Step::Renew { stream }),
            2 => which.prop_map(|which| Step::Read { which }),
        ],
        1..80,
    )
}

/// The oracle: each live array with the value of all its bytes, and nothing else.
struct Oracle {
    held: Vec<pool::Block>,
    live: Vec<(Lease, u8)>,
    next: u8,
}

impl Oracle {
    fn value(&mut self) -> u8 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    fn add(&mut self, lease: Lease, value: u8) {
        let new = range(&lease);
        self.check_apart(&new);
        let passport = passport(new.start).unwrap().unwrap();
        assert_eq!((passport.known, passport.base), (Known::PoolBlock, new.start));
        assert!(passport.size >= new.end - new.start && new.start.is_multiple_of(512));
        self.live.push((lease, value));
    }

    /// Checks that memory shares no byte with what is live.
    fn check_apart(&self, new: &Range<u64>) {
        let blocks = self.held.iter().map(|block| block.address()..block.address() + block.bytes());
        for old in self.live.iter().map(|(lease, _)| range(lease)).chain(blocks) {
            let apart = new.end <= old.start || old.end <= new.start;
            assert!(apart, "{new:x?} and {old:x?} share bytes");
        }
    }

    /// Keeps a block, and gives an older one back once there are several.
    fn hold(&mut self, block: pool::Block) {
        self.check_apart(&(block.address()..block.address() + block.bytes()));
        self.held.push(block);
        if self.held.len() > 3 {
            drop(self.held.remove(0));
        }
    }

    fn at(&self, which: usize) -> Option<usize> {
        which.checked_rem(self.live.len())
    }

    fn check(&self, index: usize) {
        let (lease, value) = &self.live[index];
        let found = read(lease).unwrap();
        let wrong = found.iter().position(|byte| byte != value);
        assert_eq!(wrong, None, "{value} expected in {:x?}", range(lease));
    }
}

fn run(steps: &[Step], limit: Option<u64>) {
    let _turn = alone();
    pool::set_limit(0, limit).unwrap();
    let new = || Stream::create(0, false).unwrap();
    let mut streams: Vec<Stream> = vec![Stream::legacy(0)];
    streams.extend((1..STREAMS).map(|_| new()));
    let mut oracle = Oracle { held: Vec::new(), live: Vec::new(), next: 0 };
    for step in steps {
        match *step {
            Step::Hold { stream, bytes: count } => {
                if let Ok(block) = pool::allocate(count, &streams[stream]) {
                    oracle.hold(block);
                }
            }
            Step::Make { stream, bytes: count, block } => {
                let made = || match block {
                    true => leased(count, &streams[stream]),
                    false => bytes(count),
                };
                match on(&streams[stream], made) {
                    Ok(lease) => {
                        let value = oracle.value();
                        on(&streams[stream], || fill(&lease, value)).unwrap();
                        oracle.add(lease, value);
                    }
                    // Only where the limit does not allow it.
                    Err(error @ Error::OutOfDeviceMemory { .. }) => {
                        assert!(limit.is_some(), "{error}");
                        assert!(pool::usage(0).live + 32 * MIB + count > limit.unwrap(), "{error}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Free { which } => {
                if let Some(index) = oracle.at(which) {
                    drop(oracle.live.swap_remove(index));
                }
            }
            Step::Copy { which, stream } => {
                if let Some(index) = oracle.at(which) {
                    let (from, value) = (oracle.live[index].0.clone(), oracle.live[index].1);
                    let count = from.view().extent().1;
                    on(&streams[stream], || {
                        let Ok(to) = bytes(count) else { return };
                        // SAFETY: only streams that the leases know work on them.
                        unsafe { copy::copy(&from, &to) }.unwrap();
                        oracle.add(to, value);
                    });
                }
            }
            Step::Fill { which, stream } => {
                if let Some(index) = oracle.at(which) {
                    let value = oracle.value();
                    oracle.live[index].1 = value;
                    on(&streams[stream], || fill(&oracle.live[index].0, value)).unwrap();
                }
            }
            Step::Wait { stream } => streams[stream].synchronize().unwrap(),
            Step::Trim { keep } => {
                pool::trim(0, keep).unwrap();
            }
            Step::Renew { stream } => streams[stream] = new(),
            Step::Read { which } => {
                if let Some(index) = oracle.at(which) {
                    oracle.check(index);
                }
            }
        }
        let usage = pool::usage(0);
        assert_eq!(usage.live + usage.cached, usage.reserved, "{usage:?}");
        assert!(usage.reserved <= limit.unwrap_or(u64::MAX), "{usage:?}");
        assert!(usage.live <= usage.peak && usage.largest <= usage.cached, "{usage:?}");
    }
    // Late work of memory that was freed has run by now: it must not have reached anything that is alive.
    gpulend::stream::synchronize(0).unwrap();
    for index in 0..oracle.live.len() {
        oracle.check(index);
    }
    drop(oracle);
    settle();
    pool::trim(0, 0).unwrap();
    assert_eq!(pool::usage(0).reserved, 0);
}

fn cases(count: u32) -> ProptestConfig {
    // Many more of them where the soak test is long too.
    let long = std::env::var("GPULEND_TEST_SOAK").is_ok();
    let cases = if long { count * 50 } else { count };
    ProptestConfig { failure_persistence: None, cases, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    #[ignore = "needs the simulated GPU that `make test-rust` names"]
    fn no_byte_is_in_two_live_blocks_and_none_is_used_again_before_its_work_is_done(steps in steps()) {
        run(&steps, None);
    }

    #[test]
    #[ignore = "needs the simulated GPU that `make test-rust` names"]
    fn the_same_where_a_limit_makes_streams_share_blocks(steps in steps()) {
        run(&steps, Some(40 * MIB));
    }
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_block_is_used_again_on_its_stream_without_waiting() {
    let _turn = alone();
    let stream = Stream::create(0, false).unwrap();
    on(&stream, || {
        let first = bytes(MIB).unwrap();
        fill(&first, 1).unwrap();
        let address = range(&first).start;
        drop(first);
        let second = bytes(MIB).unwrap();
        assert_eq!(range(&second).start, address);
        fill(&second, 2).unwrap();
        assert!(read(&second).unwrap().iter().all(|byte| *byte == 2));
    });
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_busy_streams_block_is_taken_only_at_the_limit_and_in_order() {
    let _turn = alone();
    let [one, other] = [(); 2].map(|()| Stream::create(0, false).unwrap());
    let first = on(&one, || bytes(MIB)).unwrap();
    on(&one, || fill(&first, 1)).unwrap();
    let address = range(&first).start;
    drop(first);
    // The fill is late, so the block is not for the other stream.
    let second = on(&other, || bytes(MIB)).unwrap();
    assert_ne!(range(&second).start, address);
    drop(second);
    pool::set_limit(0, Some(32 * MIB)).unwrap();
    let taken: Vec<Lease> = on(&other, || (0..32).map(|_| bytes(MIB).unwrap()).collect());
    assert!(on(&other, || bytes(MIB)).is_err());
    for lease in &taken {
        on(&other, || fill(lease, 2)).unwrap();
    }
    assert!(taken.iter().any(|lease| range(lease).start == address));
    gpulend::stream::synchronize(0).unwrap();
    for lease in &taken {
        assert!(read(lease).unwrap().iter().all(|byte| *byte == 2));
    }
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_freed_blocks_address_is_refused_and_a_block_that_took_its_place_is_another() {
    let _turn = alone();
    let lease = bytes(5000).unwrap();
    let address = range(&lease).start;
    let known = passport(address + 4999).unwrap().unwrap();
    assert_eq!((known.known, known.base, known.size), (Known::PoolBlock, address, 5120));
    drop(lease);
    let error = passport(address).unwrap_err();
    assert_eq!((error.code(), error.to_string().contains("gpulend's pool")), (406, true));
    let again = bytes(5000).unwrap();
    assert_eq!(range(&again).start, address);
    assert_ne!(passport(address).unwrap().unwrap().buffer_id, known.buffer_id);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn out_of_memory_says_who_holds_it_and_the_next_call_works() {
    let _turn = alone();
    pool::set_limit(0, Some(8 * MIB)).unwrap();
    let held = bytes(6 * MIB).unwrap();
    let export = held.export(gpulend::ledger::Name::intern("a consumer"));
    let error = bytes(6 * MIB).unwrap_err();
    assert_eq!(error.code(), 1020);
    let text = error.to_string();
    assert!(text.contains("of at most 8388608") && text.contains("leases hold 6291456"), "{text}");
    assert!(text.contains("a consumer was lent 6291456"), "{text}");
    // What is left serves smaller requests, and everything is there again afterwards.
    let small = bytes(MIB).unwrap();
    drop((small, export, held));
    let all = bytes(8 * MIB).unwrap();
    assert_eq!(pool::usage(0).live, 8 * MIB);
    drop(all);
    // More than any device has.
    assert_eq!(bytes(1 << 45).unwrap_err().code(), 1020);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn memory_that_the_reaper_is_about_to_release_is_waited_for() {
    let _turn = alone();
    pool::set_limit(0, Some(20 * MIB)).unwrap();
    let [one, other] = [(); 2].map(|()| Stream::create(0, false).unwrap());
    for _ in 0..20 {
        let lease = on(&one, || bytes(18 * MIB)).unwrap();
        on(&one, || fill(&lease, 1)).unwrap();
        on(&other, || fill(&lease, 2)).unwrap();
    }
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn trim_keeps_what_is_asked_for_and_a_limit_gives_back_what_is_beyond() {
    let _turn = alone();
    let leases: Vec<Lease> = (0..4).map(|_| bytes(20 * MIB).unwrap()).collect();
    drop(leases);
    assert_eq!(pool::usage(0).cached, 80 * MIB);
    assert_eq!(pool::trim(0, 50 * MIB).unwrap(), 40 * MIB);
    assert_eq!(pool::usage(0).cached, 40 * MIB);
    pool::set_limit(0, Some(25 * MIB)).unwrap();
    assert_eq!((pool::usage(0).reserved, pool::limit(0)), (20 * MIB, Some(25 * MIB)));
    assert_eq!(pool::usage(0).peak, 80 * MIB);
    pool::reset_peak(0);
    assert_eq!(pool::usage(0).peak, 0);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn fragmentation_is_how_far_free_memory_is_broken_up() {
    let _turn = alone();
    let leases: Vec<Lease> = (0..4).map(|_| bytes(512 * 1024).unwrap()).collect();
    assert_eq!(pool::usage(0).segments, 1);
    assert!(pool::usage(0).fragmentation().abs() < 1e-9);
    let mut leases = leases.into_iter();
    let (first, second) = (leases.next(), leases.next());
    let (third, fourth) = (leases.next(), leases.next());
    drop((first, third));
    assert!((pool::usage(0).fragmentation() - 0.5).abs() < 1e-9);
    drop(second);
    assert!(pool::usage(0).fragmentation().abs() < 1e-9);
    // Three neighbours become one block.
    let large = bytes(400 * 1024).unwrap();
    assert_eq!(pool::usage(0).segments, 1);
    drop((fourth, large));
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_destroyed_streams_blocks_serve_others_and_its_handle_is_forgotten() {
    let _turn = alone();
    pool::set_limit(0, Some(4 * MIB)).unwrap();
    for round in 0..50 {
        let stream = Stream::create(0, false).unwrap();
        let lease = on(&stream, || bytes(3 * MIB)).unwrap();
        on(&stream, || fill(&lease, round)).unwrap();
        drop((lease, stream));
    }
}

/// What the pool does, step by step, so that a fault can be injected into each of its driver calls.
fn everything() -> Result<(), Error> {
    // So that the other stream must take the block that the first one freed.
    programme(Some(32 * MIB))
}

fn programme(limit: Option<u64>) -> Result<(), Error> {
    let [one, other] = [Stream::create(0, false)?, Stream::create(0, false)?];
    pool::set_limit(0, limit)?;
    let first = on(&one, || bytes(MIB))?;
    on(&one, || fill(&first, 1))?;
    drop(first);
    let second: Vec<Lease> = on(&other, || (0..32).map(|_| bytes(MIB)).collect::<Result<_, _>>())?;
    on(&other, || fill(&second[0], 2))?;
    on(&one, || fill(&second[0], 3))?;
    drop(second);
    let large = on(&one, || bytes(30 * MIB))?;
    on(&one, || fill(&large, 4))?;
    drop(large);
    pool::trim(0, 0)?;
    Ok(())
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_fault_in_any_driver_call_of_the_pool_poisons_nothing() {
    let _turn = alone();
    everything().unwrap();
    settle();
    let calls = [
        "cuMemAlloc",
        "cuMemFree",
        "cuStreamQuery",
        "cuEventRecord",
        "cuEventCreate",
        "cuEventQuery",
        "cuStreamWaitEvent",
        "cuStreamSynchronize",
        "cuStreamGetCaptureInfo",
        "cuMemGetInfo",
        "cuCtxGetCurrent",
        "cuThreadExchangeStreamCaptureMode",
        "cuStreamCreateWithPriority",
    ];
    let mut failed = 0;
    for call in calls {
        for (number, code) in
            [1, 2, 4].into_iter().flat_map(|n| ["OUT_OF_MEMORY", "UNKNOWN"].map(|code| (n, code)))
        {
            set_faults(&format!("{call}#{number}={code}")).unwrap();
            let result = everything();
            set_faults("").unwrap();
            failed += u32::from(result.is_err());
            pool::set_limit(0, None).unwrap();
            settle();
            let usage = pool::usage(0);
            assert_eq!((usage.live, usage.cached), (0, usage.reserved), "{call}#{number}={code}");
            let lease = bytes(MIB).unwrap_or_else(|error| panic!("{call}#{number}: {error}"));
            fill(&lease, 7).unwrap();
            assert!(read(&lease).unwrap().iter().all(|byte| *byte == 7));
        }
    }
    assert!(failed > 20, "{failed} programs noticed a fault");
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn out_of_memory_at_each_step_recovers() {
    let _turn = alone();
    let mut refused = 0;
    // By the driver at its n-th allocation, then at each limit.
    for step in 0..40 {
        let result = if step < 8 {
            set_faults(&format!("cuMemAlloc#{}=OUT_OF_MEMORY", step + 1)).unwrap();
            everything()
        } else {
            programme(Some(2 * MIB * (step - 8)))
        };
        set_faults("").unwrap();
        if let Err(error) = result {
            assert_eq!(error.code(), 1020, "{step}: {error}");
            refused += 1;
        }
        pool::set_limit(0, None).unwrap();
        settle();
        let usage = pool::usage(0);
        assert_eq!((usage.live, usage.cached), (0, usage.reserved), "{step}");
        everything().unwrap_or_else(|error| panic!("{step}: {error}"));
        settle();
    }
    assert!((10..40).contains(&refused), "{refused} refusals");
}
