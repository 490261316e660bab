//! The functions of `gpulend.h`: gpulend for C, C++, ctypes and every language that calls C.
//!
//! They translate and never decide: the core refuses calls and says why. cbindgen makes `include/gpulend.h`
//! from this crate; `tests/header.rs` fails if the two differ.
//!
//! # Safety
//!
//! Every function relies on the following, besides its own contract:
//!
//! 1. A pointer is null, or points to as many values of its type as the function says, readable, and for
//!    results writable, until the function returns. Strings end in NUL.
//! 2. A deleter may be called once, from any thread, with the context it was passed with, and does not throw.
//! 3. Memory that is wrapped or copied is as its claim says; checks find most false claims, not all.
//! 4. The number of a foreign stream is that of a stream of the device's primary context, which exists
//!    whenever the handle is used.
//! 5. A launched kernel stays inside the memory of its arguments, and no work that the leases do not know of
//!    uses that memory meanwhile. The simulated GPU checks the first.
//!
//! Handles need no such guarantee: each is looked up, and a handle that is not alive is refused.
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

mod pool;

mod leases;

mod copies;

mod exchange;

mod ledger;

mod modules;

mod kernels;

mod timing;

mod tickets;

pub use about::*;
pub use copies::*;
pub use devices::*;
pub use exchange::*;
pub use kernels::*;
pub use leases::*;
pub use ledger::*;
pub use memory::*;
pub use modules::*;
pub use pool::*;
pub use refusal::Refusal;
pub use single_instance::start;
pub use streams::*;
pub use table::{adopt, publish};
pub use tickets::*;
pub use timing::*;
pub use types::*;
