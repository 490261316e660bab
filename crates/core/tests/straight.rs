//! The straight way of a launch, where another stream comes between the look at a lease and the launch.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tool;

use gpulend::driver::{Settings, simulate};
use gpulend::import::raw::{Claim, wrap_checked};
use gpulend::kernel::{Kernel, Queued, Size};
use gpulend::ledger::Name;
use gpulend::module::{Module, Recipe};
use gpulend::stream::{Ready, Stream, enter, leave};
use gpulend::{Device, DeviceKind, Dtype, Lease, Owner, copy, pool};

const SOURCE: &str = "
extern \"C\" __global__ void set(int *x, int to) { *x = to; }
extern \"C\" __global__ void get(const int *x, int *y) { *y = *x; }
";

/// Queues a launch on a stream, by the long way.
fn get(kernel: &Kernel, on: &Stream, from: &Lease, to: &Lease) {
    // SAFETY: the kernel stays inside the arrays, which nobody else knows.
    unsafe { kernel.with(Size::of(1, 1)).on(on).array(from).array(to).launch() }.unwrap();
}

fn value(lease: &Lease) -> i32 {
    // SAFETY: nobody else works on it by now.
    unsafe { copy::to_vec::<i32>(lease) }.unwrap()[0]
}

/// Two kernels and two streams on a simulated GPU.
struct Setup {
    setter: Kernel,
    getter: Kernel,
    one: Stream,
    other: Stream,
    device: Device,
}

impl Setup {
    fn new() -> Self {
        let ziglang = tool::clang().ziglang;
        simulate(&Settings::default()).unwrap();
        let recipe = Recipe { ziglang, ..Recipe::new(SOURCE) };
        let module = Module::compile(recipe, 0).unwrap();
        let [setter, getter] = ["set", "get"].map(|name| Kernel::new(module.find(name).unwrap()));
        let [one, other] = [(); 2].map(|()| Stream::create(0, false).unwrap());
        Self { setter, getter, one, other, device: Device::new(DeviceKind::Cuda, 0) }
    }
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn work_that_came_between_is_not_mistaken_for_all() {
    let Setup { setter, getter, one, other, device } = Setup::new();
    // Of the other stream, and read there, so that nobody waits for the first one for its sake.
    enter(other.clone());
    let [memory, y] = [(); 2].map(|()| pool::empty(&[1], Dtype::INT32, device).unwrap());
    other.synchronize().unwrap();
    leave(&other);
    enter(one.clone());
    // Known as nobody's work: of the stream that allocates memory more may come at any time, and nobody remembers it as done.
    let claim = Claim {
        address: memory.view().address(),
        shape: &[1],
        strides: None,
        dtype: Dtype::INT32,
        device: Some(device),
        readonly: false,
        check: false,
    };
    let owner = Owner::keep(memory);
    // SAFETY: the memory is the owner's, and nobody else's.
    let x = unsafe {
        wrap_checked(claim.verify().unwrap(), || owner, Some(Ready::Now), Name::intern("a test"))
    }
    .unwrap();
    let size = Size::of(1, 1);
    // SAFETY: as above.
    unsafe { setter.with(size).array(&x).integer(1).launch() }.unwrap();

    // A launch is looked at before the other stream waits for the first, and remembers it, and is queued after.
    let mut second = setter.prepare().unwrap().straight();
    assert!(second.lease(&x) && second.integer(2));
    get(&getter, &other, &x, &y);
    get(&getter, &other, &x, &y);
    // SAFETY: as above.
    assert!(matches!(unsafe { second.queue(&size) }, Ok(Queued::Yes)));
    get(&getter, &other, &x, &y);
    enter(other.clone());
    assert_eq!(value(&y), 2);
    leave(&other);

    // By now it is not one stream's alone: no launch of it goes straight.
    let mut third = setter.prepare().unwrap().straight();
    assert!(!third.lease(&x));
    leave(&one);
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn the_stream_is_that_of_the_first_array() {
    let setup = Setup::new();
    let Setup { device, one, other, .. } = &setup;
    let add = |home: &Stream, leases: &[&Lease]| {
        let mut straight = setup.getter.prepare().unwrap().straight();
        leases.iter().all(|lease| straight.lease(lease)) && straight.on(home.clone())
    };
    enter(one.clone());
    let x = pool::empty(&[1], Dtype::INT32, *device).unwrap();
    assert!(add(one, &[]) && add(other, &[]) && add(one, &[&x]));
    assert!(!add(other, &[&x]));
    // One that other threads cannot name, and so not who waits for the memory.
    enter(Stream::per_thread(0));
    assert!(!add(&Stream::per_thread(0), &[]) && !add(one, &[&x]));
    let y = pool::empty(&[1], Dtype::INT32, *device).unwrap();
    assert!(!add(one, &[&y]));
    leave(&Stream::per_thread(0));
    leave(one);
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn memory_that_the_host_got_meanwhile_is_waited_for() {
    let Setup { setter, one, device, .. } = Setup::new();
    enter(one.clone());
    let x = pool::empty(&[1], Dtype::INT32, device).unwrap();
    let mut straight = setter.prepare().unwrap().straight();
    assert!(straight.lease(&x) && straight.integer(1));
    x.hand_to_host().unwrap();
    // SAFETY: as above.
    let queued = unsafe { straight.queue(&Size::of(1, 1)) }.unwrap();
    assert!(matches!(queued, Queued::Shared(stream) if stream.is(&one)));
    let mut straight = setter.prepare().unwrap().straight();
    assert!(!straight.lease(&x));
    leave(&one);
}
