//! The CUDA driver of this process. Its functions are looked up at run time.
//!
//! There is one CUDA path. The library behind it is the real `libcuda.so.1` or the simulated GPU, which has
//! the same functions. It is chosen at the first use and kept until the process ends.

mod choice;
mod context;
mod cuda;
mod functions;
mod launch;
mod log;
mod mappings;
mod memory;
mod passport;
mod paths;
mod pinned;
mod settings;
mod sharing;
mod simulator;
mod streams;

pub(crate) use choice::in_use;
pub use choice::{driver, is_forked, present, relaxed, simulate};
pub use context::{Entered, Relaxed};
pub use cuda::{Driver, Properties};
pub(crate) use launch::Limits;
pub(crate) use log::{Extent, MOST_EXTENTS, note};
pub(crate) use memory::{Rows, Side};
pub use passport::{Known, Passport, memory_at, passport};
pub use paths::{driver_folder, set_simulator, simulator_library};
pub use settings::Settings;
pub(crate) use sharing::Allocation;

pub use gpulend_common::{Check, parse_size};
pub use simulator::{end_simulated, rehearse, report, set_faults};
pub(crate) use streams::Capture;
