//! A launch as a plan: which stream it chooses, which arguments it takes, and what comes between filling and queueing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tool;

use gpulend::driver::{Settings, simulate};
use gpulend::import::raw::{Claim, wrap_checked};
use gpulend::kernel::{Argument, Kernel, Options, Plan, Size, add_stand_in};
use gpulend::ledger::Name;
use gpulend::module::{Module, Recipe};
use gpulend::stream::{Ready, Stream, enter, leave};
use gpulend::{Device, DeviceKind, Dtype, Error, Lease, Owner, SignatureError, copy, pool};

const SOURCE: &str = "
extern \"C\" __global__ void set(int *x, int to) { *x = to; }
extern \"C\" __global__ void get(const int *x, int *y) { *y = *x; }
";

/// Queues a launch on a stream.
fn get(kernel: &Kernel, on: &Stream, from: &Lease, to: &Lease) {
    // SAFETY: the kernel stays inside the arrays, which nobody else knows.
    unsafe { kernel.with(Size::of(1, 1)).on(on).array(from).array(to).launch() }.unwrap();
}

/// An empty plan.
fn plan(kernel: &Kernel) -> Plan<'_> {
    kernel.prepare().unwrap().plan(Options::default())
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

    // A launch is filled before the other stream waits for the first, and remembers it, and is queued after.
    let mut second = plan(&setter);
    assert!(second.fit_lease(&x) && second.fit_integer(2));
    get(&getter, &other, &x, &y);
    get(&getter, &other, &x, &y);
    // SAFETY: as above; what came between stands for another thread.
    assert!(unsafe { second.queue(&size) }.unwrap().is_none());
    get(&getter, &other, &x, &y);
    enter(other.clone());
    assert_eq!(value(&y), 2);
    leave(&other);
    leave(&one);
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn the_stream_is_the_one_named_else_the_first_array_s_else_the_current_one() {
    let setup = Setup::new();
    let Setup { getter, device, one, other, .. } = &setup;
    enter(one.clone());
    let x = pool::empty(&[1], Dtype::INT32, *device).unwrap();
    let chosen = |plan: &mut Plan<'_>, wanted: &Stream| plan.stream().unwrap().is(wanted);
    // Nothing was said: a lease chooses the current one, and frameworks come too late.
    let mut launch = plan(getter);
    assert!(launch.stream().is_none());
    assert!(launch.fit_lease(&x) && chosen(&mut launch, one));
    assert!(!launch.prefer(other) && launch.prefer(one) && chosen(&mut launch, one));
    // The framework whose array came first.
    let mut launch = plan(getter);
    assert!(launch.prefer(other) && !launch.prefer(one) && chosen(&mut launch, other));
    assert!(launch.fit_lease(&x) && chosen(&mut launch, other));
    // The one that was named.
    let mut launch = plan(getter);
    launch.on(one.clone());
    assert!(!launch.prefer(other) && launch.prefer(one) && chosen(&mut launch, one));
    // One that other threads cannot name is chosen, but a framework's array there needs a lease.
    let own = Stream::per_thread(0);
    let mut launch = plan(getter);
    assert!(!launch.prefer(&own) && chosen(&mut launch, &own));
    enter(own.clone());
    let mut launch = plan(getter);
    assert!(launch.fit_lease(&x) && chosen(&mut launch, &own) && !launch.prefer(&own));
    leave(&own);
    leave(one);
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn the_stream_stays_while_code_of_others_enters_another() {
    let Setup { setter, one, other, device, .. } = Setup::new();
    enter(one.clone());
    let x = pool::empty(&[1], Dtype::INT32, device).unwrap();
    let mut launch = plan(&setter);
    assert!(launch.fit_lease(&x));
    launch.before_others();
    enter(other.clone());
    assert!(launch.fit_integer(3) && launch.stream().unwrap().is(&one));
    // SAFETY: the kernel stays inside the array, which nobody else knows.
    assert!(unsafe { launch.queue(&Size::of(1, 1)) }.unwrap().is_none());
    leave(&other);
    // On its own stream, so that nothing else is waited for.
    assert_eq!(value(&x), 3);
    leave(&one);
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn what_does_not_fit_leaves_the_plan_as_it_was() {
    let Setup { setter, one, device, .. } = Setup::new();
    enter(one.clone());
    let x = pool::empty(&[1], Dtype::INT32, device).unwrap();
    let wide = pool::empty(&[1], Dtype::INT64, device).unwrap();
    let mut launch = plan(&setter);
    assert!(!launch.fit_lease(&wide) && !launch.fit_integer(1) && !launch.fit_float(1.0));
    assert!(launch.push_lent(&wide).is_err() && launch.fit_lease(&x));
    assert!(!launch.fit_integer(1 << 40) && !launch.fit_float(1.0) && !launch.fit_lease(&x));
    let refused = launch.push(&Argument::Integer(1 << 40)).unwrap_err();
    assert!(matches!(refused, Error::Signature(SignatureError::Range { .. })), "{refused}");
    // The same argument goes on where the fast path stopped.
    launch.push(&Argument::Bool(true)).unwrap();
    assert!(!launch.fit_integer(1) && launch.place().is_none());
    // SAFETY: as above.
    unsafe { launch.queue(&Size::of(1, 1)) }.unwrap();
    assert_eq!(value(&x), 1);
    // One too many is counted, and refused with all.
    let mut launch = plan(&setter);
    assert!(launch.fit_lease(&x) && launch.fit_integer(2));
    launch.push(&Argument::Integer(3)).unwrap();
    // SAFETY: as above.
    let refused = unsafe { launch.queue(&Size::of(1, 1)) }.unwrap_err();
    assert!(matches!(refused, Error::Signature(SignatureError::Count { .. })), "{refused}");
    leave(&one);
}

/// A lease of one int of the host's, and where it lies.
fn on_host(origin: &str) -> (Lease, *const i32) {
    let memory: Box<[i32]> = Box::new([7]);
    let place = memory.as_ptr();
    let claim = Claim {
        address: place.expose_provenance() as u64,
        shape: &[1],
        strides: None,
        dtype: Dtype::INT32,
        device: None,
        readonly: false,
        check: true,
    };
    let checked = claim.verify().unwrap();
    // SAFETY: the memory is the owner's, and nobody else's.
    let lease =
        unsafe { wrap_checked(checked, || Owner::keep(memory), None, Name::intern(origin)) };
    (lease.unwrap(), place)
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn arrays_of_the_host_stand_in_by_their_origin_and_are_waited_for() {
    let Setup { setter, one, other, .. } = Setup::new();
    enter(one.clone());
    add_stand_in("torch.Tensor");
    let (lease, place) = on_host("torch.Tensor");
    let mut launch = plan(&setter);
    assert!(!launch.fit_lease(&lease));
    launch.push_lent(&lease).unwrap();
    // It has no stream to choose.
    assert!(launch.stream().is_none() && launch.prefer(&other) && launch.fit_integer(5));
    // SAFETY: the kernel stays inside the array, which nobody else knows, and which is there until the wait is over.
    let wait = unsafe { launch.queue(&Size::of(1, 1)) }.unwrap().unwrap();
    assert!(wait.is(&other));
    wait.synchronize().unwrap();
    // SAFETY: the lease keeps it, and nobody writes it by now.
    assert_eq!(unsafe { place.read() }, 5);

    let (lease, _) = on_host("numpy.ndarray");
    let refused = plan(&setter).push_lent(&lease).unwrap_err();
    assert!(matches!(refused, Error::Signature(SignatureError::Host { .. })), "{refused}");
    leave(&one);
}

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn memory_that_the_host_got_meanwhile_is_waited_for() {
    let Setup { setter, one, device, .. } = Setup::new();
    enter(one.clone());
    let x = pool::empty(&[1], Dtype::INT32, device).unwrap();
    let mut launch = plan(&setter);
    assert!(launch.fit_lease(&x) && launch.fit_integer(1));
    x.hand_to_host().unwrap();
    // SAFETY: as above; the host stands for another thread.
    let wait = unsafe { launch.queue(&Size::of(1, 1)) }.unwrap();
    assert!(wait.is_some_and(|stream| stream.is(&one)));
    // From now on always.
    let mut launch = plan(&setter);
    assert!(launch.fit_lease(&x) && launch.fit_integer(1));
    // SAFETY: as above.
    let wait = unsafe { launch.queue(&Size::of(1, 1)) }.unwrap();
    assert!(wait.is_some_and(|stream| stream.is(&one)));
    leave(&one);
}
