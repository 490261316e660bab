//! DLPack tensors of hostile producers: never a panic, released exactly once, conservative when handed on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod oracle;
mod producer;

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpulend::abi::dlpack::{
    self, DeviceCode, ExchangeApi, ExchangeHeader, FLAG_IS_COPIED, FLAG_READ_ONLY,
    FLAG_SUBBYTE_PADDED, Header, ManagedTensorVersioned, Tensor, Version,
};
use gpulend::export::dlpack::Receiver;
use gpulend::import::array_interface::{Buffer, Description, Interface};
use gpulend::import::dlpack::{exchange_api, take_legacy, take_versioned};
use gpulend::ledger::{self, Name};
use gpulend::{
    AddressError, Dtype, Error, ExportError, Layout, LayoutError, Lease, ProtocolError, View, copy,
    export,
};
use oracle::config;
use producer::{Data, Fields};
use proptest::prelude::*;
use proptest::sample::select;

/// How many lines of the ledger name `who`, which no other test does.
fn lines(who: &str) -> usize {
    ledger::snapshot().entries.iter().filter(|entry| *entry.who == *who).count()
}

/// Calls an exported tensor's deleter, here or on another thread.
fn release<T: 'static>(tensor: *mut T, deleter: unsafe extern "C" fn(*mut T), elsewhere: bool) {
    struct Carried<T>(*mut T);
    // SAFETY: a DLPack deleter may be called from any thread.
    unsafe impl<T> Send for Carried<T> {}
    let carried = Carried(tensor);
    let call = move || {
        let carried = carried;
        // SAFETY: the tensor was exported to the test, which releases it here and nowhere else.
        unsafe { deleter(carried.0) }
    };
    if elsewhere { std::thread::spawn(call).join().unwrap() } else { call() }
}

/// Checks what strict consumers rely on.
fn assert_conservative(tensor: &Tensor, view: &View, layout: &Layout) {
    let rank = layout.rank();
    assert_eq!(tensor.byte_offset, 0);
    assert_eq!(tensor.dtype, view.dtype().to_dlpack());
    assert_eq!(tensor.dtype.lanes, 1);
    assert_eq!(tensor.device, dlpack::Device { code: DeviceCode::CPU, index: 0 });
    assert_eq!(usize::try_from(tensor.ndim), Ok(rank));
    let address = if view.layout().is_empty() { 0 } else { view.address() };
    assert_eq!(tensor.data.addr() as u64, address);
    assert!(!tensor.shape.is_null() && !tensor.strides.is_null());
    // SAFETY: an exported tensor's shape holds `ndim` numbers.
    let shape = unsafe { std::slice::from_raw_parts(tensor.shape, rank) };
    // SAFETY: as do its strides.
    let strides = unsafe { std::slice::from_raw_parts(tensor.strides, rank) };
    assert_eq!((shape, strides), (layout.shape(), layout.strides()));
}

/// Exports, checks, imports again: the same view comes back.
fn assert_round_trip(lease: &Lease, who: Name, elsewhere: bool) {
    let view = lease.view();
    let canonical = view.layout().canonical();
    for copied in [false, true] {
        let out = export::dlpack::to_versioned(lease, Receiver::of_host(who), copied);
        // SAFETY: a fresh export is ours until its deleter is called.
        let exported = unsafe { &*out };
        assert_eq!(exported.header.version, dlpack::VERSION);
        let mut flags = if view.readonly() { FLAG_READ_ONLY } else { 0 };
        flags |= if view.dtype().is_padded() { FLAG_SUBBYTE_PADDED } else { 0 };
        flags |= if copied { FLAG_IS_COPIED } else { 0 };
        assert_eq!(exported.header.flags, flags);
        assert_conservative(&exported.tensor, view, &canonical);
        if copied {
            release(out, exported.header.deleter.unwrap(), elsewhere);
            continue;
        }
        // SAFETY: our own export keeps to its protocol and is given away here.
        let back = unsafe { take_versioned(out, who) }.unwrap();
        assert_eq!(back.view().layout(), &canonical);
        assert_eq!(
            (back.view().dtype(), back.view().readonly(), back.view().nbytes()),
            (view.dtype(), view.readonly(), view.nbytes())
        );
        if !view.layout().is_empty() {
            assert_eq!(back.view().address(), view.address());
        }
    }
    match export::dlpack::to_legacy(lease, Receiver::of_host(who), "test") {
        Err(ExportError::ReadOnly { .. }) => assert!(view.readonly()),
        Err(ExportError::Type { .. }) => assert!(view.dtype().is_padded()),
        Err(error) => panic!("{error}"),
        Ok(out) => {
            assert!(!view.readonly() && !view.dtype().is_padded());
            // SAFETY: a fresh export is ours until its deleter is called.
            let exported = unsafe { &*out };
            assert_conservative(&exported.tensor, view, &canonical);
            if elsewhere {
                release(out, exported.deleter.unwrap(), true);
            } else {
                // SAFETY: our own export keeps to its protocol and is given away here.
                let back = unsafe { take_legacy(out, who) }.unwrap();
                assert_eq!(back.view().layout(), &canonical);
            }
        }
    }
    // What is only shown points into the lease, whose strides are as they came.
    assert_conservative(
        &export::dlpack::show(lease, Receiver::of_host(who).device),
        view,
        view.layout(),
    );
    lease.check_unlent().unwrap();
}

/// Where some memory of this process lies, with more on both sides.
fn mapped() -> u64 {
    static MEMORY: [u128; 256] = [0; 256];
    (&raw const MEMORY[128]).addr() as u64
}

/// Mostly the right value, sometimes any.
fn mostly<T: Clone + std::fmt::Debug + 'static>(
    right: impl Strategy<Value = T> + 'static,
    any: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<T> {
    prop_oneof![6 => right, 1 => any].boxed()
}

fn far() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        select(vec![i64::MIN, -1, 0, i64::MAX, i64::MAX / 2, 1 << 32, 1 << 60])
    ]
}

fn fields() -> impl Strategy<Value = Fields> {
    let version = mostly(Just((1, 3)), (0_u32..4, any::<u32>()));
    let flags = prop_oneof![0_u64..8, any::<u64>()];
    let data = mostly(
        Just(Data::Own),
        prop_oneof![Just(Data::Null), any::<usize>().prop_map(Data::Elsewhere)],
    );
    let byte_offset = mostly(select(vec![0_u64, 8, 256]), any::<u64>());
    let device = mostly(select(vec![(1, 0), (3, 0)]), (prop_oneof![0..20, any::<i32>()], -1..3));
    let types: Vec<_> = Dtype::all().map(|dtype| (dtype.code(), dtype.bits(), 1_u16)).collect();
    let dtype = mostly(select(types), (0_u8..20, any::<u8>(), 0_u16..4));
    let extents = mostly(0_i64..4, far());
    let axes = prop::collection::vec((extents, mostly(-4_i64..16, far())), 0..6);
    let rank = prop::option::weighted(0.1, prop_oneof![any::<i32>(), -2_i32..70]);
    let given = (prop::bool::weighted(0.9), prop::bool::weighted(0.8), prop::bool::weighted(0.9));
    (version, flags, data, byte_offset, device, dtype, axes, rank, given).prop_map(
        |(version, flags, data, byte_offset, device, dtype, axes, rank, given)| {
            let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
            Fields {
                version: Version { major: version.0, minor: version.1 },
                flags,
                data,
                // Null with an offset has a test of its own.
                byte_offset: if matches!(data, Data::Null) { 0 } else { byte_offset },
                device,
                ndim: rank.unwrap_or_else(|| i32::try_from(shape.len()).unwrap()),
                dtype,
                shape: given.0.then_some(shape),
                strides: given.1.then_some(strides),
                deleter: given.2,
            }
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_versioned_tensor_is_released_once_whatever_it_says(
        fields in fields(), elsewhere in any::<bool>()
    ) {
        let who = Name::intern("a hostile producer, versioned");
        let leaked = fields.versioned();
        // SAFETY: the header can be read whatever the fields say.
        let data = unsafe { (*leaked.managed).tensor.data }.addr() as u64;
        // SAFETY: the struct is initialised, its deleter is ours to give and runs anywhere;
        // nothing reads the memory it describes.
        match unsafe { take_versioned(leaked.managed, who) } {
            Err(error) => {
                let padded = fields.flags & FLAG_SUBBYTE_PADDED != 0;
                let possible = fields.version.major == 1 && fields.is_possible(padded, data);
                prop_assert!(!possible, "{}", error);
                prop_assert!(error.code() > 0 && !error.to_string().is_empty());
            }
            Ok(lease) => {
                let padded = fields.flags & FLAG_SUBBYTE_PADDED != 0;
                prop_assert!(fields.version.major == 1 && fields.is_possible(padded, data));
                prop_assert_eq!(lease.view().readonly(), fields.flags & FLAG_READ_ONLY != 0);
                prop_assert_eq!(lease.view().dtype().is_padded(), padded && fields.dtype.1 < 8);
                prop_assert_eq!(lease.view().address(), data + fields.byte_offset);
                assert_round_trip(&lease, who, elsewhere);
                prop_assert_eq!(leaked.deleted(), 0);
                if elsewhere {
                    std::thread::spawn(move || drop(lease)).join().unwrap();
                }
            }
        }
        leaked.assert_released_once();
        prop_assert_eq!(lines("a hostile producer, versioned"), 0);
    }

    #[test]
    fn a_legacy_tensor_is_released_once_whatever_it_says(
        fields in fields(), elsewhere in any::<bool>()
    ) {
        let who = Name::intern("a hostile producer, legacy");
        let leaked = fields.legacy();
        // SAFETY: the struct can be read whatever the fields say.
        let data = unsafe { (*leaked.managed).tensor.data }.addr() as u64;
        // SAFETY: as above.
        let taken = unsafe { take_legacy(leaked.managed, who) };
        prop_assert_eq!(taken.is_ok(), fields.is_possible(false, data), "{:?}", taken);
        if let Ok(lease) = taken {
            prop_assert!(!lease.view().readonly());
            assert_round_trip(&lease, who, elsewhere);
            prop_assert_eq!(leaked.deleted(), 0);
        }
        leaked.assert_released_once();
        prop_assert_eq!(lines("a hostile producer, legacy"), 0);
    }

    #[test]
    fn the_elements_of_an_accepted_tensor_are_the_producers(
        extents in prop::collection::vec(0_i64..5, 0..4),
        strides in any::<bool>(),
        byte_offset in 0_u64..64,
    ) {
        let rank = i32::try_from(extents.len()).unwrap();
        let size: i64 = extents.iter().product();
        // Columns first, so that reading rows needs the strides.
        let mut next = 1;
        let steps: Vec<i64> = extents
            .iter()
            .map(|extent| {
                next *= extent;
                next / extent.max(&1)
            })
            .collect();
        let fields = Fields {
            ndim: rank,
            byte_offset,
            dtype: (1, 8, 1),
            strides: strides.then_some(steps.clone()),
            shape: Some(extents.clone()),
            ..Fields::right()
        };
        let leaked = fields.versioned();
        // SAFETY: shape and strides stay inside the memory behind the tensor.
        let lease = unsafe { take_versioned(leaked.managed, Name::UNKNOWN) }.unwrap();
        // SAFETY: (1) nobody else writes a test's memory.
        let elements = unsafe { copy::to_vec::<u8>(&lease) }.unwrap();
        drop(lease);
        leaked.assert_released_once();
        let expected: Vec<i64> =
            if strides { oracle::offsets(&extents, &steps) } else { (0..size).collect() };
        let byte = |at: &i64| u8::try_from((at + i64::try_from(byte_offset).unwrap()) % 256).unwrap();
        prop_assert_eq!(elements, expected.iter().map(byte).collect::<Vec<_>>());
    }

    #[test]
    fn a_hand_over_that_fails_releases_once(
        fails in any::<bool>(), releases in any::<bool>(), elsewhere in any::<bool>()
    ) {
        let leaked = Fields::right().versioned();
        // SAFETY: the tensor is right and given away.
        let lease = unsafe { take_versioned(leaked.managed, Name::UNKNOWN) }.unwrap();
        let mut kept = None;
        let who = Name::intern("a consumer that fails or not");
        let result = export::dlpack::hand_over(&lease, Receiver::of_host(who), |tensor| {
            // SAFETY: the tensor is live until somebody releases it.
            let deleter = unsafe { (*tensor).header.deleter }.unwrap();
            if releases {
                release(tensor, deleter, elsewhere);
            } else {
                kept = Some((tensor, deleter));
            }
            if fails { Err("refused") } else { Ok(1) }
        });
        prop_assert_eq!(result, if fails { Err("refused") } else { Ok(1) });
        if !fails && let Some((tensor, deleter)) = kept {
            prop_assert!(lease.check_unlent().is_err());
            release(tensor, deleter, elsewhere);
        }
        prop_assert_eq!(lease.check_unlent(), Ok(()));
        prop_assert_eq!(lines("a consumer that fails or not"), 0);
        prop_assert_eq!(leaked.deleted(), 0);
        prop_assert!(lease.release().is_ok());
        leaked.assert_released_once();
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel whether memory is mapped")]
    fn a_hostile_description_is_a_view_or_an_error(
        version in mostly(Just(3_i64), any::<i64>()),
        typestr in prop_oneof![4 => select(vec!["<f4", "|u1", "<c16", "|b1"]), 1 => select(vec!["", ">f8", "|O8", "<f0", "é", "|V255"])],
        axes in prop::collection::vec((prop_oneof![0_i64..4, far()], prop_oneof![-16_i64..16, far()]), 0..70),
        given in any::<bool>(),
        data in (mostly(Just(mapped()), any::<u64>()), any::<bool>()),
        masked in prop::bool::weighted(0.1),
        stream in prop::option::of(far()),
        itemsize in prop_oneof![select(vec![1_usize, 2, 4, 8, 16]), any::<usize>()],
        format in prop::option::of(select(vec!["B", "<l", "f", "Zd", ">d", "", "T{", "é", "?"])),
    ) {
        let (shape, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let buffer = Buffer {
            address: data.0,
            format,
            itemsize,
            shape: &shape,
            strides: given.then_some(&strides),
            readonly: data.1,
        };
        let description = Description {
            interface: Interface::Array,
            version,
            typestr: typestr.into(),
            shape: shape.clone(),
            strides: given.then_some(strides.clone()),
            data,
            masked,
            stream,
        };
        let cuda = Description { interface: Interface::Cuda, ..description.clone() };
        prop_assert!(cuda.verify(true).is_err());
        let described = description.verify(true).map(|checked| checked.view().clone());
        for view in [buffer.view(), described].into_iter().flatten() {
            prop_assert_eq!((view.address(), view.readonly()), data);
            prop_assert_eq!(view.layout().shape(), &shape[..]);
            let (low, bytes) = view.extent();
            prop_assert!(low.checked_add(bytes).is_some());
            prop_assert_eq!(export::array_interface::byte_strides(&view).len(), shape.len());
        }
    }
}

#[test]
fn null_is_refused_and_the_next_call_works() {
    // SAFETY: null is allowed.
    let refused = unsafe { take_versioned(ptr::null_mut(), Name::UNKNOWN) };
    assert_eq!(refused.unwrap_err(), Error::from(ProtocolError::Null));
    // SAFETY: null is allowed.
    let refused = unsafe { take_legacy(ptr::null_mut(), Name::UNKNOWN) };
    assert_eq!(refused.unwrap_err(), Error::from(ProtocolError::Null));
    let leaked = Fields::right().versioned();
    // SAFETY: the tensor is right and given away.
    drop(unsafe { take_versioned(leaked.managed, Name::UNKNOWN) }.unwrap());
    leaked.assert_released_once();
}

#[test]
fn of_a_strange_version_only_the_header_is_read() {
    let deleted = Arc::new(AtomicUsize::new(0));
    #[repr(C)]
    struct Short {
        header: Header,
        deleted: Arc<AtomicUsize>,
    }
    unsafe extern "C" fn delete_short(managed: *mut ManagedTensorVersioned) {
        // SAFETY: the test leaks a `Short` under this deleter, which runs once.
        let short = unsafe { Box::from_raw(managed.cast::<Short>()) };
        assert_eq!(short.header.version.major, 2);
        short.deleted.fetch_add(1, Ordering::SeqCst);
    }
    let short = Box::new(Short {
        header: Header {
            version: Version { major: 2, minor: 0 },
            manager_ctx: ptr::null_mut::<c_void>(),
            deleter: Some(delete_short),
            flags: u64::MAX,
        },
        deleted: Arc::clone(&deleted),
    });
    // SAFETY: of another major version nothing but the header is promised.
    let refused = unsafe { take_versioned(Box::into_raw(short).cast(), Name::UNKNOWN) };
    assert_eq!(refused.unwrap_err(), ProtocolError::Version { major: 2, minor: 0 }.into());
    assert_eq!(deleted.load(Ordering::SeqCst), 1);
}

#[test]
fn the_table_of_our_version_is_found_and_loops_end() {
    fn table(major: u32, prev_api: *const ExchangeApi) -> ExchangeApi {
        let version = Version { major, minor: 9 };
        ExchangeApi {
            header: ExchangeHeader { version, prev_api: prev_api.cast() },
            managed_tensor_allocator: None,
            managed_tensor_from_py_object_no_sync: None,
            managed_tensor_to_py_object_no_sync: None,
            dltensor_from_py_object_no_sync: None,
            current_work_stream: None,
        }
    }
    // SAFETY: null is allowed.
    assert_eq!(unsafe { exchange_api(ptr::null()) }.unwrap_err(), ProtocolError::Null.into());
    let ours = table(1, ptr::null());
    let middle = table(3, &raw const ours);
    let newest = table(2, &raw const middle);
    // SAFETY: the tables outlive every look at them in this test.
    assert!(ptr::eq(unsafe { exchange_api(&raw const newest) }.unwrap(), &raw const ours));
    let strange = Err(ProtocolError::Version { major: 7, minor: 9 }.into());
    let lonely = table(7, ptr::null());
    // SAFETY: as above.
    assert_eq!(unsafe { exchange_api(&raw const lonely) }.map(drop), strange);
    let mut circle = table(7, ptr::null());
    let first = &raw mut circle;
    // SAFETY: nobody else looks at the table yet.
    unsafe { (*first).header.prev_api = first.cast() };
    // SAFETY: as above.
    assert_eq!(unsafe { exchange_api(first) }.map(drop), strange);
}

#[test]
fn a_table_that_is_not_there_is_refused_unread() {
    let made_up = |address: usize| {
        // SAFETY: the address is not mapped.
        unsafe { exchange_api(ptr::without_provenance(address)) }.unwrap_err().code()
    };
    assert_eq!([1, 4097, usize::MAX].map(made_up), [203; 3]);
    assert_eq!([4096, usize::MAX - 7].map(made_up), [404; 2]);
    let mut newer =
        ExchangeHeader { version: Version { major: 2, minor: 0 }, prev_api: ptr::null() };
    newer.prev_api = ptr::without_provenance(8192);
    // SAFETY: the header lives until the end of the test, and `prev_api` is not mapped.
    let refused = unsafe { exchange_api((&raw const newer).cast()) };
    assert_eq!(refused.unwrap_err().code(), 404);
}

#[test]
fn an_offset_does_not_make_null_an_address() {
    let fields = Fields { data: Data::Null, byte_offset: 4096, ..Fields::right() };
    let leaked = fields.versioned();
    // SAFETY: the struct is initialised and given away; nothing reads the memory.
    let refused = unsafe { take_versioned(leaked.managed, Name::UNKNOWN) };
    assert!(matches!(refused, Err(Error::Address(AddressError::Null { elements: 6 }))));
    leaked.assert_released_once();
}

#[test]
fn strides_that_are_never_taken_are_canonical_when_others_are_not() {
    let fields = Fields {
        ndim: 3,
        shape: Some(vec![2, 1, 3]),
        strides: Some(vec![8, i64::MAX, 2]),
        ..Fields::right()
    };
    let leaked = fields.versioned();
    // SAFETY: the struct is initialised and given away.
    let lease = unsafe { take_versioned(leaked.managed, Name::UNKNOWN) }.unwrap();
    let canonical = lease.view().layout().canonical();
    assert_eq!((canonical.shape(), canonical.strides()), (&[2, 1, 3][..], &[8, 3, 2][..]));
    drop(lease);
    leaked.assert_released_once();
}

#[test]
fn a_stride_that_only_cupy_could_have_wrapped_is_too_far_on_the_host() {
    let strides = Some(vec![i64::MAX / 2]);
    let fields = Fields { ndim: 1, shape: Some(vec![2]), strides, ..Fields::right() };
    let leaked = fields.legacy();
    // SAFETY: the struct is initialised and given away; nothing reads the memory.
    let refused = unsafe { take_legacy(leaked.managed, Name::UNKNOWN) };
    assert!(matches!(refused, Err(Error::Layout(LayoutError::Overflow { .. }))), "{refused:?}");
    leaked.assert_released_once();
}

#[test]
fn a_prototype_of_negative_rank_is_refused() {
    for ndim in [-1, i32::MIN] {
        let fields = Fields { ndim, ..Fields::right() };
        let mut parts = fields.parts();
        let prototype = fields.tensor(&mut parts);
        // SAFETY: the prototype is initialised; there are no negative numbers of extents.
        let made = unsafe { export::dlpack::allocate(&prototype, Name::UNKNOWN) };
        assert!(matches!(made, Err(Error::Layout(LayoutError::TooManyAxes { .. }))), "{made:?}");
    }
}
