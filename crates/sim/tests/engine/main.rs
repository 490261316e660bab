//! Kernels on the engine, without the driver: results, order of threads, and what is reported.

use std::sync::Arc;
use std::time::Duration;

use gpulend_sim::engine::{Checks, FaultKind, KernelFault, Launch, Program, Reach, run};

const HEAD: &str = ".version 6.3\n.target sm_75\n.address_size 64\n";
const ALL: Checks = Checks { memory: true, shared: true };
const NONE: Checks = Checks { memory: false, shared: false };

struct Kernel {
    program: Arc<Program>,
}

impl Kernel {
    fn new(text: &str) -> Self {
        let program =
            Program::load(&format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{error:?}"));
        Self { program: Arc::new(program) }
    }

    fn launch(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        checks: Checks,
        params: &[u64],
        memory: &[(u64, u64)],
    ) -> Result<(), Box<KernelFault>> {
        let mut bytes: Vec<u8> = params.iter().flat_map(|param| param.to_le_bytes()).collect();
        bytes.resize(self.program.kernels()[0].param_bytes as usize, 0);
        let launch = Launch {
            program: Arc::clone(&self.program),
            kernel: 0,
            grid,
            block,
            dynamic_shared: 0,
            params: bytes.into(),
            variables: Arc::from([]),
            checks,
            limit: Duration::from_secs(1),
            cooperative: false,
        };
        run(&launch, Reach::all(memory), None)
    }
}

fn range<T>(values: &mut [T]) -> (u64, u64) {
    (values.as_mut_ptr() as u64, size_of_val(values) as u64)
}

const ADD: &str =
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<4>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra END;
    mul.wide.s32 %rd4, %r5, 4;
    add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd7], %f3;
END:
    ret;
}";

#[test]
fn a_vector_add_is_right_with_and_without_checks() {
    let kernel = Kernel::new(ADD);
    for checks in [NONE, ALL] {
        let mut a: Vec<f32> = (0..1000_u16).map(f32::from).collect();
        let mut b = vec![0.5_f32; 1000];
        let mut c = vec![0.0_f32; 1000];
        let memory = {
            let mut all = [range(&mut a), range(&mut b), range(&mut c)];
            all.sort_unstable();
            all
        };
        let params = [a.as_ptr() as u64, b.as_ptr() as u64, c.as_mut_ptr() as u64, 1000];
        kernel.launch([4, 1, 1], [256, 1, 1], checks, &params, &memory).unwrap();
        assert!((0..1000).all(|index| c[index] == a[index] + 0.5));
    }
}

#[test]
fn a_write_beyond_the_end_names_its_thread_and_the_next_launch_works() {
    let kernel = Kernel::new(ADD);
    let mut a = vec![0.0_f32; 1001];
    let mut c = vec![1.0_f32; 1000];
    let mut memory = [range(&mut a), range(&mut c)];
    memory.sort_unstable();
    let params = |n| [a.as_ptr() as u64, a.as_ptr() as u64, c.as_ptr() as u64, n];
    let fault = kernel.launch([4, 1, 1], [256, 1, 1], ALL, &params(1001), &memory).unwrap_err();
    assert_eq!(
        (fault.kind, fault.block, fault.thread),
        (FaultKind::OutOfBounds, [3, 0, 0], [232, 0, 0])
    );
    assert_eq!(fault.ptx_line, 15);
    assert!(fault.what.starts_with("writes 4 bytes at"), "{}", fault.what);
    kernel.launch([4, 1, 1], [256, 1, 1], ALL, &params(1000), &memory).unwrap();
}

const SUM: &str = ".visible .entry sum(.param .u64 out) {
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 4 .b8 tile[1024];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; mov.u64 %rd3, tile; add.s64 %rd4, %rd3, %rd2;
    st.shared.u32 [%rd4], %r1;
    mov.u32 %r2, 128;
AGAIN:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra SKIP;
    mul.wide.u32 %rd5, %r2, 4; add.s64 %rd6, %rd4, %rd5;
    ld.shared.u32 %r3, [%rd6]; ld.shared.u32 %r4, [%rd4]; add.u32 %r5, %r3, %r4; st.shared.u32 [%rd4], %r5;
SKIP:
    shr.u32 %r2, %r2, 1;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra AGAIN;
    setp.ne.u32 %p3, %r1, 0;
    @%p3 bra END;
    ld.shared.u32 %r6, [tile];
    mov.u32 %r7, %ctaid.x; mul.wide.u32 %rd7, %r7, 4; add.s64 %rd8, %rd1, %rd7;
    st.global.u32 [%rd8], %r6;
END:
    ret;
}";

#[test]
fn a_reduction_with_barriers_in_a_loop_is_right() {
    let kernel = Kernel::new(SUM);
    for checks in [NONE, ALL] {
        let mut out = vec![0_u32; 100];
        let memory = [range(&mut out)];
        kernel.launch([100, 1, 1], [256, 1, 1], checks, &[memory[0].0], &memory).unwrap();
        assert!(out.iter().all(|sum| *sum == 255 * 128));
    }
}

#[test]
fn a_reduction_without_its_barrier_is_a_race() {
    let kernel = Kernel::new(&SUM.replace("bar.sync 0;", ""));
    let mut out = vec![0_u32; 1];
    let memory = [range(&mut out)];
    let fault = kernel.launch([1, 1, 1], [256, 1, 1], ALL, &[memory[0].0], &memory).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Race | FaultKind::Uninitialised), "{fault:?}");
}
