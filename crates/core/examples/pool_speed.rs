//! Times arrays made and dropped on one stream, from Rust: `cargo run --release --example pool_speed [ROUNDS]`.
//!
//! Each row is the best of 31 rounds, or as many as are asked for, of 20,000 pairs. It runs on a GPU, or on the simulated one.

use std::time::Instant;

use gpulend::stream::{Stream, enter};
use gpulend::{Device, DeviceKind, Dtype, Error, pool};

const PAIRS: u32 = 20_000;

/// The nanoseconds of the best round, for each pair.
fn best(rounds: u32, mut pair: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..PAIRS {
            pair()?;
        }
        best = best.min(begun.elapsed().as_nanos() as f64 / f64::from(PAIRS));
    }
    Ok(best)
}

fn main() -> Result<(), Error> {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(31);
    pool::set_mode(pool::Mode::On);
    let device = Device::new(DeviceKind::Cuda, 0);
    println!("| bytes | stream | ns for an array made and dropped |\n|---|---|---|");
    for (name, own) in [("legacy default", false), ("its own", true)] {
        if own {
            enter(Stream::create(0, false)?);
        }
        for bytes in [4 << 10, 1 << 20] {
            let ns = best(rounds, || pool::empty(&[bytes], Dtype::UINT8, device).map(drop))?;
            println!("| {bytes} | {name} | {ns:.0} |");
        }
    }
    Ok(())
}
