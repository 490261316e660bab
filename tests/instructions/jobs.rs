//! The jobs of Rust: run under callgrind by `counting.py`.
//!
//! `gpulend-instructions COUNTER`, which is the shared library made of `count.c`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a job that fails ends the count")]

use std::ffi::{CStr, CString, c_char};
use std::time::Duration;
use std::{env, iter, thread};

use gpulend::driver::driver;
use gpulend::import::raw::{Claim, wrap_checked};
use gpulend::kernel::{Kernel, Size};
use gpulend::ledger::{self, Name};
use gpulend::module::Module;
use gpulend::stream::{self, Stream};
use gpulend::{Device, DeviceKind, Dtype, Lease, Owner, pool};
use libloading::Library;

const CALLS: usize = 20;
const WARM_UP: usize = 5;
const ROUNDS: usize = 3;
const LAUNCHES: [(&str, &str, usize); 3] = [
    ("launch, 1 lease", "one", 1),
    ("launch, 3 leases", "three", 3),
    ("launch, 12 leases", "twelve", 12),
];

/// The functions of `count.c`, found before anything is counted.
struct Counter {
    start: unsafe extern "C" fn(),
    stop: unsafe extern "C" fn(*const c_char),
}

impl Counter {
    fn new(path: &str) -> Self {
        // SAFETY: its initialisers are the C library's. It stays loaded.
        let library = Box::leak(Box::new(unsafe { Library::new(path) }.unwrap()));
        // SAFETY: `count.c` defines it so.
        let start = *unsafe { library.get(b"count_start") }.unwrap();
        // SAFETY: as above.
        let stop = *unsafe { library.get(b"count_stop") }.unwrap();
        Self { start, stop }
    }

    fn run(&self, name: Option<&CStr>, job: impl FnOnce()) {
        let Some(name) = name else { return job() };
        // SAFETY: it takes nothing and touches no memory of ours.
        unsafe { (self.start)() };
        job();
        // SAFETY: the name is a C string that outlives the call.
        unsafe { (self.stop)(name.as_ptr()) };
    }

    /// Counts calls whose results are kept, and if `drops` what dropping those costs.
    fn count<T>(&self, name: &str, drops: bool, call: impl Fn() -> T) {
        let live = ledger::live();
        let dropped = CString::new(format!("{name}, dropped")).unwrap();
        let name = CString::new(name).unwrap();
        let mut kept = Vec::with_capacity(CALLS);
        for round in 0..WARM_UP + ROUNDS {
            let counts = round >= WARM_UP;
            let made = || kept.extend(iter::repeat_with(&call).take(CALLS));
            self.run(counts.then_some(&name), made);
            self.run((counts && drops).then_some(&dropped), || kept.clear());
            settle(live);
        }
    }
}

/// Waits until all that a job dropped is released, which on a GPU another thread does.
fn settle(live: usize) {
    stream::synchronize(0).unwrap();
    for _ in 0..20_000 {
        if ledger::live() <= live {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{} leases are left", ledger::live() - live);
}

fn wrap(address: u64) -> Lease {
    let claim = Claim {
        address,
        shape: &[4, 4],
        strides: None,
        dtype: Dtype::FLOAT32,
        device: None,
        readonly: false,
        check: true,
    };
    // SAFETY: `main` keeps the bytes until the end, and touches them nowhere else.
    unsafe { wrap_checked(claim.verify().unwrap(), Owner::nobody, None, Name::intern("a job")) }
        .unwrap()
}

fn main() {
    let counter = Counter::new(&env::args().nth(1).expect("the path of the counter"));
    let device = Device::new(DeviceKind::Cuda, 0);
    let stream = Stream::create(0, false).unwrap();
    stream::enter(stream.clone());
    let empty = || pool::empty(&[4, 4], Dtype::FLOAT32, device).unwrap();
    let leases = [(); 12].map(|()| empty());
    // First: what is lent to others is used on other streams.
    let module = Module::from_image(include_bytes!("kernels.ptx"), 0).unwrap();
    for (job, name, many) in LAUNCHES {
        let kernel = Kernel::new(module.find(name).unwrap());
        counter.count(job, false, || {
            let launch = kernel.with(Size::of(1, 32)).on(&stream);
            let launch = leases.iter().take(many).fold(launch, |launch, lease| launch.array(lease));
            // SAFETY: the kernel does nothing.
            unsafe { launch.launch() }.unwrap();
        });
    }
    counter.count("empty, GPU", true, empty);
    let address = leases[0].view().address();
    counter.count("wrap, GPU", true, || wrap(address));
    counter.count("describe, GPU", false, || driver().unwrap().passport(address).unwrap());
    counter.count("lend, GPU", true, || {
        leases[0].hand_over(&stream).unwrap();
        leases[0].export(Name::intern("a job"))
    });
}
