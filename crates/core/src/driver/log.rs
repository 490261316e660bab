//! The latest launches of this process, so that an error can name the kernel that caused it.
#![forbid(unsafe_code)]

use std::mem;
use std::sync::Arc;

use crate::driver::cuda::Driver;
use crate::driver::simulator::Mistake;
use crate::error::{DriverError, KernelError, Shape};
use crate::fork::ProcessLock;
use crate::signature::Signature;

/// The number of launches remembered. It is small because each one occupies cache lines.
const KEPT: usize = 16;
/// The number of arguments of each launch whose memory is remembered.
pub(crate) const MOST_EXTENTS: usize = 12;

/// The memory behind an argument: the argument's index, its first address, its size in bytes.
pub(crate) type Extent = (u32, u64, u64);

/// A launch that was queued.
#[derive(Clone, Debug)]
pub(crate) struct Launched {
    pub(crate) kernel: Arc<Signature>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// How many extents belong to this launch. The others are left from an older one.
    known: usize,
    extents: [Extent; MOST_EXTENTS],
}

/// A ring buffer: the latest entry is the one before `next`.
struct Log {
    launches: [Option<Launched>; KEPT],
    next: usize,
}

static LOG: ProcessLock<Log> = ProcessLock::new(Log { launches: [const { None }; KEPT], next: 0 });

/// Records a launch over the oldest entry, in place: a launch of the same kernel needs no new reference.
pub(crate) fn note(kernel: &Arc<Signature>, grid: [u32; 3], block: [u32; 3], extents: &[Extent]) {
    let mut log = LOG.lock();
    let place = log.next;
    log.next = (place + 1) % KEPT;
    let launched = log.launches[place].get_or_insert_with(|| Launched {
        kernel: Arc::clone(kernel),
        grid,
        block,
        known: 0,
        extents: [(0, 0, 0); MOST_EXTENTS],
    });
    let old = if Arc::ptr_eq(&launched.kernel, kernel) {
        None
    } else {
        Some(mem::replace(&mut launched.kernel, Arc::clone(kernel)))
    };
    (launched.grid, launched.block) = (grid, block);
    launched.known = extents.len().min(MOST_EXTENTS);
    // Field by field: a call of memcpy costs more for so little data.
    for (place, extent) in launched.extents.iter_mut().zip(extents) {
        (place.0, place.1, place.2) = *extent;
    }
    drop(log);
    drop(old);
}

/// The latest launch that matches.
fn newest(wanted: impl Fn(&Launched) -> bool) -> Option<Launched> {
    let log = LOG.lock();
    let places = (1..=KEPT).map(|back| (log.next + KEPT - back) % KEPT);
    places
        .filter_map(|place| log.launches[place].as_ref())
        .find(|launched| wanted(launched))
        .cloned()
}

/// Whether a code says that a kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS and above, except those about
/// contexts and peers.
pub(super) fn is_mistake(code: i32) -> bool {
    matches!(code, 700 | 702 | 710 | 714..=719)
}

impl Driver {
    /// The error for such a code, with what is known about the kernel.
    #[cold]
    pub(super) fn mistake(&self, call: &'static str, code: i32, name: Box<str>) -> DriverError {
        let error = match self.control() {
            Some(control) => match control.mistake() {
                Some(mistake) => fault(&mistake, code),
                None => return DriverError::Call { call, code, name },
            },
            None => {
                let shape = newest(|_| true).map(|launched| Box::new(launched.shape()));
                KernelError::Sticky { call, shape, code, name }
            }
        };
        DriverError::Kernel(Box::new(error))
    }
}

fn fault(mistake: &Mistake, code: i32) -> KernelError {
    let launched = newest(|launched| launched.kernel.symbol == mistake.kernel);
    let argument = launched.as_ref().and_then(|launched| launched.nearest(mistake.address));
    let shape = launched.map(|launched| Box::new(launched.shape()));
    // If an argument is near, it says more than the nearest allocation.
    let what = match argument {
        Some(_) if !mistake.what.contains("freed") => {
            mistake.what.split("; nearest: ").next().unwrap_or_default().into()
        }
        _ => mistake.what.clone(),
    };
    KernelError::Fault { shape, what, argument: argument.map(Into::into), code }
}

impl Launched {
    pub(crate) fn shape(&self) -> Shape {
        let wide = |extents: [u32; 3]| extents.map(i64::from);
        Shape { kernel: self.kernel.name.clone(), grid: wide(self.grid), block: wide(self.block) }
    }

    /// Describes the argument whose memory is nearest to an address.
    fn nearest(&self, address: u64) -> Option<String> {
        if address == 0 {
            return None;
        }
        let distance = |&(_, start, bytes): &Extent| match address.checked_sub(start) {
            None => start - address,
            Some(inside) => inside.saturating_sub(bytes.saturating_sub(1)),
        };
        let known = self.extents[..self.known].iter().filter(|(_, start, _)| *start != 0);
        let nearest = known.min_by_key(|extent| distance(extent))?;
        let (position, start, bytes) = *nearest;
        let parameter = self.kernel.parameters.get(position as usize)?;
        let name = parameter.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let kind = parameter.kind.as_ref().map(|kind| format!("{kind}, ")).unwrap_or_default();
        let place = match address.checked_sub(start) {
            None => format!("{} bytes before its beginning", start - address),
            Some(inside) if inside < bytes => format!("at byte {inside} of it"),
            Some(inside) => format!("{} bytes past its end", inside - bytes),
        };
        Some(format!(
            "nearest argument: {}{name}, {kind}{bytes} bytes at {start:#x}, {place}",
            position + 1
        ))
    }
}
