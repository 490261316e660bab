//! The functions of `gpulend.h`: gpulend for C, C++, ctypes and whoever else calls C.
//!
//! They translate and never decide: what is refused, and why, is the core's. `include/gpulend.h` is made
//! from this crate by cbindgen; `tests/header.rs` fails where the two differ.
//!
//! # Safety
//!
//! What every function relies on, besides what it says itself:
//!
//! 1. A pointer is null, or leads to as many values of its type as the function says, readable, and for
//!    results writable, until the function returns. Texts end in NUL.
//! 2. A deleter may be called once, from any thread, with the context it was given with, and does not throw.
//! 3. Memory that is wrapped or copied is what its claim says; checks find most lies, not all.
//! 4. The number of a foreign stream is that of a stream of the device's primary context, which is there
//!    whenever the handle is used.
//! 5. A kernel that is launched stays inside the memory of its arguments, and nobody works on that meanwhile
//!    whom the leases do not know of. The simulated GPU checks the first.
//!
//! Handles need no such promise: each is looked up, and one that is not alive is refused.
#![expect(clippy::missing_safety_doc, reason = "the contract above is that of every function")]

mod guard;
mod hints;
mod pointer;
mod refusal;
mod single_instance;
mod table;

mod types;

mod about;
mod devices;
mod streams;

mod memory;

mod leases;

mod copies;

mod exchange;

mod ledger;

mod modules;

mod kernels;

mod timing;

pub use about::*;
pub use copies::*;
pub use devices::*;
pub use exchange::*;
pub use kernels::*;
pub use leases::*;
pub use ledger::*;
pub use memory::*;
pub use modules::*;
pub use refusal::Refusal;
pub use single_instance::start;
pub use streams::*;
pub use table::{adopt, publish};
pub use timing::*;
pub use types::*;
