//! `cargo run --example vector_add --features sim`: adds vectors on a GPU, or on the simulated one if there is none.
//!
//! The kernel is PTX, so no compiler is needed: `Module::compile` takes CUDA C++. Its symbol is that of C++'s
//! `add(const float *, const float *, float *, int)`, with which arguments are compared.

use gpulend::kernel::{Kernel, Size};
use gpulend::module::Module;
use gpulend::{Device, DeviceKind, Dtype, Lease, Report, copy, pool};

const ADD: &str = "
.version 6.3
.target sm_75
.address_size 64
.visible .entry _Z3addPKfS0_Pfi(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %i<5>;
    .reg .b64 %at<5>;
    .reg .f32 %x<4>;
    ld.param.u64 %at1, [a];
    ld.param.u64 %at2, [b];
    ld.param.u64 %at3, [c];
    ld.param.u32 %i4, [n];
    mov.u32 %i1, %ctaid.x;
    mov.u32 %i2, %ntid.x;
    mov.u32 %i3, %tid.x;
    mad.lo.u32 %i1, %i1, %i2, %i3;
    setp.ge.u32 %p, %i1, %i4;
    @%p ret;
    mul.wide.u32 %at4, %i1, 4;
    add.u64 %at1, %at1, %at4;
    add.u64 %at2, %at2, %at4;
    add.u64 %at3, %at3, %at4;
    ld.global.f32 %x1, [%at1];
    ld.global.f32 %x2, [%at2];
    add.f32 %x3, %x1, %x2;
    st.global.f32 [%at3], %x3;
    ret;
}
";

/// Copies numbers to new memory of the GPU.
fn upload(numbers: Vec<f32>) -> Result<Lease, gpulend::Error> {
    let host = Lease::from_vec(numbers)?;
    let array = pool::empty(
        host.view().layout().shape(),
        Dtype::FLOAT32,
        Device::new(DeviceKind::Cuda, 0),
    )?;
    // SAFETY: both are new, and nothing else uses them.
    unsafe { copy::copy(&host, &array) }?;
    Ok(array)
}

fn main() -> Result<(), Report> {
    let add = Kernel::new(Module::from_image(ADD.as_bytes(), 0)?.find("add")?);
    let (a, b) = (upload(vec![1.0; 1000])?, upload((0_u16..1000).map(f32::from).collect())?);
    let sums = pool::empty(&[1000], Dtype::FLOAT32, Device::new(DeviceKind::Cuda, 0))?;
    let launch = add.with(Size::of(8, 128)).array(&a).array(&b).array(&sums).integer(1000);
    // SAFETY: the kernel stays inside the arrays, and the leases know all work on them.
    unsafe { launch.launch() }?;
    // SAFETY: as above.
    let sums = unsafe { copy::to_vec::<f32>(&sums) }?;
    println!("{:?} … {:?}", &sums[..3], &sums[997..]);
    Ok(())
}
