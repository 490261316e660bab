//! The CUDA driver of this process: which one it is, and its functions, looked up at run time.
//!
//! There is one CUDA path. The library behind it is the real `libcuda.so.1` or
//! the simulated GPU's, which offers the same functions; it is chosen at the
//! first use and kept for the life of the process.

mod choice;
mod cuda;
mod passport;
mod place;
mod settings;
mod simulator;

pub use choice::{driver, simulate};
pub use cuda::{Driver, Properties};
pub use passport::{Known, Passport, passport};
pub use place::{driver_folder, simulator_library, tell_simulator};
pub use settings::{Settings, parse_size};
pub use simulator::{rehearse, report, set_faults};
