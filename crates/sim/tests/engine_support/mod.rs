//! What tests of the engine share: loading, launching, and bodies that may take their process down.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may fail so")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, thread};

use gpulend_sim::engine::{Checks, KernelFault, Launch, Program, Reach, run};

pub(crate) const HEAD: &str = ".version 6.3\n.target sm_75\n.address_size 64\n";
pub(crate) const NONE: Checks = Checks { memory: false, shared: false };
pub(crate) const MEMORY: Checks = Checks { memory: true, shared: false };
pub(crate) const ALL: Checks = Checks { memory: true, shared: true };
pub(crate) const MODES: [Checks; 3] = [NONE, MEMORY, ALL];

/// A launch that is put together.
pub(crate) struct Try {
    program: Arc<Program>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) checks: Checks,
    pub(crate) dynamic: u32,
    pub(crate) limit: Duration,
    pub(crate) cooperative: bool,
}

impl Try {
    pub(crate) fn new(text: &str) -> Self {
        Self::headed(HEAD, text)
    }

    /// For a newer processor.
    pub(crate) fn newer(text: &str) -> Self {
        Self::headed(&HEAD.replace("6.3", "8.0").replace("sm_75", "sm_80"), text)
    }

    fn headed(head: &str, text: &str) -> Self {
        let program =
            Program::load(&format!("{head}{text}")).unwrap_or_else(|error| panic!("{error:?}"));
        Self {
            program: Arc::new(program),
            grid: [1; 3],
            block: [1; 3],
            checks: ALL,
            dynamic: 0,
            // For compiling too, which takes long where nothing is optimised.
            limit: Duration::from_secs(30),
            cooperative: false,
        }
    }

    pub(crate) fn shape(mut self, grid: u32, block: u32) -> Self {
        (self.grid, self.block) = ([grid, 1, 1], [block, 1, 1]);
        self
    }

    pub(crate) fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Launches the first kernel with words for parameters.
    pub(crate) fn run(
        &self,
        params: &[u64],
        memory: &[(u64, u64)],
    ) -> Result<(), Box<KernelFault>> {
        let mut bytes: Vec<u8> = params.iter().flat_map(|param| param.to_le_bytes()).collect();
        bytes.resize(self.program.kernels()[0].param_bytes as usize, 0);
        let mut memory = memory.to_vec();
        memory.sort_unstable();
        let launch = Launch {
            program: Arc::clone(&self.program),
            kernel: 0,
            grid: self.grid,
            block: self.block,
            dynamic_shared: self.dynamic,
            params: bytes.into(),
            variables: vec![0; self.program.variables().len()].into(),
            checks: self.checks,
            limit: self.limit,
            cooperative: self.cooperative,
        };
        run(&launch, Reach::all(&memory), None)
    }

    /// Launches with one parameter, the address of so many words of 32 bits, and returns them.
    pub(crate) fn words(&self, count: usize) -> Result<Vec<u32>, Box<KernelFault>> {
        let mut out = vec![0_u32; count];
        let memory = range(&mut out);
        self.run(&[memory.0], &[memory])?;
        Ok(out)
    }
}

pub(crate) fn range<T>(values: &mut [T]) -> (u64, u64) {
    (values.as_mut_ptr() as u64, size_of_val(values) as u64)
}

/// Runs a test's body in a process of its own, which must end well within so many seconds.
pub(crate) fn in_child(name: &str, seconds: u64, body: impl FnOnce()) {
    const CHILD: &str = "GPULEND_TEST_CHILD";
    if env::var(CHILD).as_deref() == Ok(name) {
        return body();
    }
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, name)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "the process ended with {status}");
            return;
        }
        if begun.elapsed() > Duration::from_secs(seconds) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it has not ended after {seconds} s");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
