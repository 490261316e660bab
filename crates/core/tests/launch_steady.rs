//! A launch that was made before touches no heap: counted by an allocator of this test's own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tool;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use gpulend::driver::{Settings, simulate};
use gpulend::kernel::{Kernel, Size};
use gpulend::module::{Module, Recipe};
use gpulend::stream::{Stream, synchronize};
use gpulend::{Device, DeviceKind, Dtype, pool};

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

#[test]
fn a_launch_that_was_made_before_touches_no_heap() {
    // `make test-rust` names one, and fails without.
    let Some(ziglang) = tool::clang().and_then(|tool| tool.ziglang) else { return };
    simulate(&Settings::default()).unwrap();
    let recipe = Recipe { ziglang: Some(ziglang), ..Recipe::new(SOURCE) };
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
    for _ in 0..100 {
        launch();
    }
    let before = COUNT.get();
    for _ in 0..1000 {
        launch();
    }
    let counted = COUNT.get() - before;
    synchronize(0).unwrap();
    assert_eq!(counted, 0, "a thousand launches allocated {counted} times");
}
