//! The driver's functions for C: each checks its pointers, calls the machine, and returns a code.
//!
//! The machine makes all decisions that it can, and every panic is caught.

pub mod arrays;
pub mod batches;
pub mod capture;
pub mod contexts;
pub mod control;
pub mod copies;
pub mod devices;
pub mod events;
pub mod functions;
pub mod graph_memory;
pub mod graphs;
mod injection;
pub mod ipc;
mod jit;
pub mod launches;
pub mod libraries;
pub mod links;
pub mod memory;
pub mod modules;
pub mod nodes;
pub mod occupancy;
pub mod pointer;
pub mod pointers;
pub mod pools;
mod process;
pub mod start;
pub mod streams;
pub mod table;
pub mod textures;
mod thread;
pub mod user_objects;
pub mod virtual_memory;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use self::process::{machine, was_forked};
use crate::machine::run::inside_host_function;
use crate::machine::stream::DefaultStream;
use crate::machine::{Caller, Machine};
use crate::status::{Outcome, Status};

/// Defines a driver function under each of its names. The suffix of the name decides what stream 0 means.
macro_rules! entry {
    (#[doc = $doc:literal] fn $symbol:ident $arguments:tt |$call:ident| $body:block) => {
        $crate::api::entry! { @one $doc $symbol $arguments |$call| $body }
    };
    (#[doc = $doc:literal] fn [$($symbol:ident),+] $arguments:tt |$call:ident| $body:block) => {
        $($crate::api::entry! { @one $doc $symbol $arguments |$call| $body })+
    };
    (@one $doc:literal $symbol:ident ($($name:ident: $type:ty),* $(,)?) |$call:ident| $body:block) => {
        #[doc = $doc]
        ///
        /// # Safety
        ///
        /// 1. Pointers are null or as CUDA's documentation of the function wants them.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the names are CUDA's")]
        pub unsafe extern "C" fn $symbol($($name: $type),*) -> $crate::status::Status {
            const ROW: usize = $crate::api::table::row(stringify!($symbol));
            $crate::api::guard(ROW, |$call| $body)
        }
    };
}
pub(crate) use entry;

/// A call of a driver function.
#[derive(Clone, Copy)]
struct Call {
    row: usize,
}

impl Call {
    /// Returns the machine.
    fn machine(self) -> Outcome<&'static Machine> {
        let machine = machine().ok_or(Status::ERROR_NOT_INITIALIZED)?;
        // CUDA forbids driver calls inside host functions.
        if inside_host_function() { Err(Status::ERROR_NOT_PERMITTED) } else { Ok(machine) }
    }

    fn caller(self) -> Caller {
        Caller {
            thread: thread::number(),
            mode: thread::mode(),
            passive: thread::is_passive(),
            function: table::FUNCTIONS[self.row].symbol,
        }
    }

    /// Returns the current context, even if it is destroyed.
    fn context(self) -> Outcome<usize> {
        self.machine()?;
        thread::current().ok_or(Status::ERROR_INVALID_CONTEXT)
    }

    /// Returns the stream of a handle for this function and thread.
    fn stream(self, handle: usize) -> Outcome<usize> {
        let default = if table::FUNCTIONS[self.row].per_thread {
            DefaultStream::PerThread
        } else {
            DefaultStream::Legacy
        };
        self.machine()?.lock().resolve_stream(&self.caller(), self.context(), handle, default)
    }

    /// Returns the default stream, for functions without a stream parameter.
    fn default_stream(self) -> Outcome<usize> {
        self.stream(0)
    }
}

/// Runs the body of a function: counts the call, injects faults, and catches panics.
fn guard(row: usize, body: impl FnOnce(Call) -> Outcome<()>) -> Status {
    table::COUNTS[row].fetch_add(1, Ordering::Relaxed);
    let call = Call { row };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // In a forked child only the functions about error codes work.
        if was_forked() && !table::FUNCTIONS[row].pure {
            return Err(Status::ERROR_NOT_INITIALIZED);
        }
        // A passive thread does not keep the machine from proceeding by itself.
        if let Some(machine) = machine()
            && !thread::is_passive()
        {
            machine.note_call();
        }
        if !was_forked() {
            injection::strike(call)?;
        }
        body(call)
    }));
    match outcome {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => Status::ERROR_UNKNOWN,
    }
}

/// Handles a call of a listed but unsupported function.
fn missing(row: usize) -> Status {
    guard(row, |_| Err(Status::ERROR_NOT_SUPPORTED))
}
