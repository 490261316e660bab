//! Times memory made and dropped from Rust: `cargo run --release --example pool_speed [ROUNDS]`.
//!
//! Each row is the best of 31 rounds, or as many as are asked for, of 20,000 pairs. It runs on a GPU, or on the simulated one.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use gpulend::stream::{Stream, enter, leave};
use gpulend::{Device, DeviceKind, Dtype, Error, pool};

const PAIRS: u32 = 20_000;
const THREADS: usize = 4;

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

/// The same where as many threads as there are do it at once, each on a stream of its own: the mean of their best rounds.
fn together(rounds: u32, bytes: u64) -> Result<f64, Error> {
    let start = Barrier::new(THREADS);
    let work = || {
        let source = pool::Source::on(&Stream::create(0, false)?)?;
        start.wait();
        best(rounds, || source.allocate(bytes).map(drop))
    };
    let times: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(f64::NAN))).collect()
    });
    let times: Vec<f64> = times.into_iter().collect::<Result<_, _>>()?;
    Ok(times.iter().sum::<f64>() / THREADS as f64)
}

fn main() -> Result<(), Error> {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(31);
    let device = Device::new(DeviceKind::Cuda, 0);
    println!("| what is made and dropped | stream | 4 KiB, ns | 1 MiB, ns |\n|---|---|---|---|");
    let row = |what: &str, stream: &str, of: &mut dyn FnMut(u64) -> Result<f64, Error>| {
        let (small, large) = (of(4 << 10)?, of(1 << 20)?);
        println!("| {what} | {stream} | {small:.0} | {large:.0} |");
        Ok::<(), Error>(())
    };
    let lease = |bytes: u64| {
        let shape = [i64::try_from(bytes).unwrap_or(i64::MAX)];
        best(rounds, || pool::empty(&shape, Dtype::UINT8, device).map(drop))
    };
    for (name, stream) in
        [("legacy default", Stream::legacy(0)), ("its own", Stream::create(0, false)?)]
    {
        enter(stream.clone());
        pool::set_mode(pool::Mode::On);
        let source = pool::Source::on(&stream)?;
        row("a block of a source", name, &mut |bytes| {
            best(rounds, || source.allocate(bytes).map(drop))
        })?;
        row("a block", name, &mut |bytes| {
            best(rounds, || pool::allocate(bytes, &stream).map(drop))
        })?;
        row("a lease", name, &mut |bytes| lease(bytes))?;
        pool::set_mode(pool::Mode::Off);
        row("a lease of the driver's memory", name, &mut |bytes| lease(bytes))?;
        leave(&stream);
    }
    row("a block of a source, on four threads", "four", &mut |bytes| together(rounds, bytes))?;
    row("`Vec::with_capacity`, on the host", "", &mut |bytes| {
        let bytes = usize::try_from(bytes).unwrap_or(0);
        best(rounds, || {
            black_box(Vec::<u8>::with_capacity(black_box(bytes)));
            Ok(())
        })
    })?;
    Ok(())
}
