//! `cargo run --example cudarc --features cudarc`: a slice of cudarc's becomes a lease, and the lease views of cudarc's.
//!
//! Without a GPU: `gpulend run -- cargo run --example cudarc --features cudarc`.

use cudarc::driver::CudaContext;
use gpulend::copy;
use gpulend::cudarc::{lease, lend};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stream = CudaContext::new(0)?.new_stream()?;
    let slice = stream.clone_htod(&[1.0_f32, 2.0, 3.0, 4.0])?;

    let matrix = lease(slice)?.reshaped(&[2, 2])?; // in: the lease owns the slice

    let mut lent = lend::<f32>(&matrix, &stream)?; // out: the same memory, as views of cudarc's
    stream.memset_zeros(&mut lent.view_mut()?.slice_mut(..2))?;
    drop(lent); // later users wait for cudarc's work

    // SAFETY: the lease knows all work on the memory.
    assert_eq!(unsafe { copy::to_vec::<f32>(&matrix) }?, [0.0, 0.0, 3.0, 4.0]);
    Ok(())
}
