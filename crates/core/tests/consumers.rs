//! What a consumer may see of read-only memory, and the proof that its array is the memory it was lent.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use gpulend::export::consumer::{Admitted, Consumer, Writes};
use gpulend::ledger::Name;
use gpulend::{Dtype, ExportError, Layout, Lease, Owner, View, import};

/// A lease of float32 with a shape and strides, in memory of its own.
fn lease(shape: &[i64], strides: &[i64]) -> Lease {
    let memory = vec![0.0_f32; 64];
    let address = memory.as_ptr().expose_provenance() as u64;
    let layout = Layout::new(shape, strides, Dtype::FLOAT32).unwrap();
    let view = View::host(address, Dtype::FLOAT32, layout, false).unwrap();
    let owner = Owner::call(move || drop(memory));
    // SAFETY: the owner keeps the memory, and nobody writes it.
    unsafe { import::raw::wrap(view, owner, Name::intern("test_consumers")) }
}

fn consumer(writes: Writes) -> Consumer {
    Consumer::new("test", [Dtype::FLOAT32], writes, false)
}

/// What becomes of a lease: whether it is refused, is still read-only, and is doubtful.
fn fate(writes: Writes, lease: Lease, allow_writable_alias: bool) -> (bool, bool, bool) {
    let consumer = consumer(writes);
    let admitted = consumer.admit(lease.view(), allow_writable_alias);
    let lease = if admitted == Admitted::Unchanged { lease } else { lease.as_writable_alias() };
    let refused = consumer.check(lease.view());
    assert!(matches!(refused, Ok(()) | Err(ExportError::ReadOnly { .. })), "{refused:?}");
    (refused.is_err(), lease.view().readonly(), admitted == Admitted::Doubtful)
}

#[test]
fn writable_memory_is_lent_as_it_is() {
    for writes in [Writes::Unmarked, Writes::Marked, Writes::Never] {
        for allowed in [false, true] {
            assert_eq!(fate(writes, lease(&[4], &[1]), allowed), (false, false, false));
        }
    }
}

#[test]
fn read_only_memory_is_marked_or_never_written_or_refused() {
    let frozen = || lease(&[4], &[1]).as_readonly();
    assert_eq!(fate(Writes::Marked, frozen(), false), (false, true, false));
    assert_eq!(fate(Writes::Never, frozen(), false), (false, false, false));
    assert_eq!(fate(Writes::Unmarked, frozen(), false), (true, true, false));
}

#[test]
fn a_writable_alias_is_made_only_where_nothing_else_helps() {
    let frozen = || lease(&[4], &[1]).as_readonly();
    assert_eq!(fate(Writes::Unmarked, frozen(), true), (false, false, false));
    assert_eq!(fate(Writes::Marked, frozen(), true), (false, true, false));
}

#[test]
fn immutable_memory_goes_with_a_warning_to_consumers_that_cannot_mark_it() {
    let immutable = || lease(&[4], &[1]).immutable();
    assert_eq!(fate(Writes::Unmarked, immutable(), false), (false, false, true));
    assert_eq!(fate(Writes::Unmarked, immutable(), true), (false, false, false));
    assert_eq!(fate(Writes::Marked, immutable(), false), (false, true, false));
    assert_eq!(fate(Writes::Never, immutable(), false), (false, false, false));
}

#[test]
fn an_array_elsewhere_is_a_copy() {
    let lease = lease(&[3, 4], &[4, 1]);
    let (view, consumer) = (lease.view(), consumer(Writes::Marked));
    assert_eq!(consumer.prove(view, view.address()), Ok(()));
    let (found, wanted) = (view.address() + 4, view.address());
    let error = ExportError::NotZeroCopy { consumer: "test".into(), found, wanted };
    assert_eq!(consumer.prove(view, found), Err(error));
}

#[test]
fn the_address_of_an_array_without_elements_is_not_compared() {
    let lease = lease(&[0, 3], &[3, 1]);
    assert_eq!(consumer(Writes::Marked).prove(lease.view(), 0), Ok(()));
}
