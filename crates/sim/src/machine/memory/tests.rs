//! Tests of allocations.
use super::*;

fn memory(check: Check) -> Memory {
    Memory::new(&Config { memory: 1 << 20, check, ..Config::default() }).unwrap()
}

fn allocate(memory: &mut Memory, bytes: usize) -> usize {
    memory.allocate(Kind::Device, 0, 0, bytes, 0).unwrap()
}

#[test]
fn freed_memory_is_poisoned_and_its_address_rests() {
    let mut memory = memory(Check::Memory);
    let first = allocate(&mut memory, 1000);
    let range = memory.get(first).unwrap().range.clone();
    assert!(bytes::is_filled(&range, FRESH) && first.is_multiple_of(GRANULE));
    let damaged = memory.release(first, "cuMemFree_v2").unwrap().damaged;
    assert!(!damaged && bytes::is_filled(&range, POISON));
    let others: Vec<usize> = (0..100).map(|_| allocate(&mut memory, 1000)).collect();
    assert!(!others.contains(&first));
    assert_eq!(memory.freed_by(first + 999), Some("cuMemFree_v2"));
    assert!(matches!(memory.find(first), Found::Nothing));
}

#[test]
fn writing_past_the_end_is_seen_when_it_is_freed() {
    let mut memory = memory(Check::Memory);
    let base = allocate(&mut memory, 1000);
    let past = memory.arenas[0].range(base + 1000, 1).unwrap();
    bytes::fill(&past, Pattern::Byte(1), 1, 1, 0);
    assert!(memory.release(base, "cuMemFree_v2").unwrap().damaged);
}

#[test]
fn with_checks_off_an_address_is_used_again_at_once() {
    let mut memory = memory(Check::Off);
    let first = allocate(&mut memory, 4096);
    memory.release(first, "cuMemFree_v2").unwrap();
    assert_eq!(allocate(&mut memory, 4096), first);
}

#[test]
fn memory_ends_at_its_limit_and_comes_back() {
    for check in [Check::Off, Check::Memory] {
        let mut memory = memory(check);
        for _ in 0..300 {
            let base = allocate(&mut memory, 1 << 20);
            assert_eq!(memory.allocate(Kind::Device, 0, 0, 1, 0), Err(Status::ERROR_OUT_OF_MEMORY));
            memory.release(base, "cuMemFree_v2").unwrap();
        }
        assert_eq!(memory.used(0), 0);
    }
}

#[test]
fn large_allocations_begin_at_a_multiple_of_2_mib_between_redzones() {
    for check in [Check::Off, Check::Memory] {
        let config = Config { memory: 64 << 20, check, ..Config::default() };
        let mut memory = Memory::new(&config).unwrap();
        for round in 0..20 {
            let small = allocate(&mut memory, 1000 + round);
            let bases = [LARGE, LARGE + 1, 3 << 20, 5_000_000].map(|bytes| {
                let base = allocate(&mut memory, bytes);
                assert!(base.is_multiple_of(LARGE_ALIGN), "{bytes} bytes at {base:#x}");
                if check != Check::Off {
                    let before = memory.arenas[0].range(base - GRANULE, GRANULE).unwrap();
                    let after = memory.arenas[0].range(base + bytes, GRANULE).unwrap();
                    assert!(bytes::is_filled(&before, REDZONE));
                    assert!(bytes::is_filled(&after, REDZONE));
                }
                base
            });
            // Half of them stay for a while, so that the space is in pieces.
            for base in bases.into_iter().skip(round % 2).step_by(2) {
                assert!(!memory.release(base, "cuMemFree_v2").unwrap().damaged);
            }
            if round % 4 == 3 {
                let left: Vec<usize> = memory.live.keys().copied().collect();
                for base in left {
                    let _ = memory.release(base, "cuMemFree_v2");
                }
            }
            assert!(round % 4 == 3 || memory.get(small).is_some());
        }
    }
}

#[test]
fn the_nearest_allocation_is_named() {
    let mut memory = memory(Check::Memory);
    let base = allocate(&mut memory, 100);
    let text = memory.nearest(base + 116).unwrap();
    assert!(
        text.starts_with("16 bytes after the end of buffer 1 (100 bytes of device memory"),
        "{text}"
    );
    memory.release(base, "cuMemFree_v2").unwrap();
    assert!(memory.nearest(base + 5).unwrap().contains("freed by cuMemFree_v2"));
}
