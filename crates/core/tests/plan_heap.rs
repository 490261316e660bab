//! A launch that was made before touches no heap: counted by an allocator of this test's own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tool;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use gpulend::driver::{Settings, simulate};
use gpulend::kernel::{Kernel, Options, Size};
use gpulend::module::{Module, Recipe};
use gpulend::stream::{Stream, synchronize};
use gpulend::{Device, DeviceKind, Dtype, copy, pool};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts what this thread allocates; the reaper's own thread is not in a launch's way.
struct Counting;

// SAFETY: every call is the system allocator's, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SOURCE: &str = "
extern \"C\" __global__ void add(const float *a, const float *b, float *c, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] * by;
}";
/// Numbers of a kernel that has very many.
const MANY: i32 = 40;

#[test]
#[ignore = "needs the compilers that `make test-rust` names"]
fn a_launch_that_was_made_before_touches_no_heap() {
    let ziglang = tool::clang().ziglang;
    simulate(&Settings::default()).unwrap();
    let recipe = Recipe { ziglang: ziglang.clone(), ..Recipe::new(SOURCE) };
    let module = Module::compile(recipe, 0).unwrap();
    let add = Kernel::new(module.find("add").unwrap());
    let device = Device::new(DeviceKind::Cuda, 0);
    let arrays = [(); 3].map(|()| pool::empty(&[256], Dtype::FLOAT32, device).unwrap());
    let stream = Stream::create(0, false).unwrap();
    let launch = || {
        let [a, b, c] = &arrays;
        let launch = add.with(Size::of(1, 256)).on(&stream).array(a).array(b).array(c);
        // SAFETY: the kernel stays inside the arrays, which nobody else knows.
        unsafe { launch.integer(256).float(2.0).launch() }.unwrap();
    };
    assert_eq!(count(launch), 0, "a thousand launches allocated so often");

    let names: Vec<String> = (0..MANY).map(|index| format!("p{index}")).collect();
    let (parameters, sum) = (names.join(", int "), names.join(" + "));
    let source =
        format!("extern \"C\" __global__ void sum(int *out, int {parameters}) {{ *out = {sum}; }}");
    let recipe = Recipe { ziglang, ..Recipe::new(&source) };
    let sum = Kernel::new(Module::compile(recipe, 0).unwrap().find("sum").unwrap());
    let out = pool::empty(&[1], Dtype::INT32, device).unwrap();
    let launch = || {
        let mut plan = sum.prepare().unwrap().plan(Options::default());
        plan.on(stream.clone());
        assert!(plan.fit_lease(&out) && (0..MANY).all(|index| plan.fit_integer(index.into())));
        // SAFETY: as above.
        unsafe { plan.queue(&Size::of(1, 1)) }.unwrap();
    };
    assert_eq!(count(launch), 0, "a thousand launches with many arguments allocated so often");
    // SAFETY: nobody works on it but the stream, which is waited for.
    assert_eq!(unsafe { copy::to_vec::<i32>(&out) }.unwrap(), [MANY * (MANY - 1) / 2]);
}

/// How often a thousand launches allocate, after a hundred.
fn count(launch: impl Fn()) -> u64 {
    for _ in 0..100 {
        launch();
    }
    let before = COUNT.get();
    for _ in 0..1000 {
        launch();
    }
    let counted = COUNT.get() - before;
    synchronize(0).unwrap();
    counted
}
