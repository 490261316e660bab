//! `gpulend._native`: gives Python objects to the core and core objects to Python.
//!
//! It translates and never decides: what is refused, and why, is the core's.

mod address;
mod arguments;
mod attached;
mod borrowing;
mod buffer;
mod capsule;
mod classes;
mod collections;
mod compiler;
mod consumer;
mod copies;
mod counts;
mod cupy;
mod device;
mod driver;
mod dtype;
mod errors;
mod exchange;
mod faces;
mod fast_path;
mod frameworks;
mod free_list;
mod graph;
mod handles;
mod hints;
mod index;
mod interface;
mod kernel;
mod launcher;
mod layouts;
mod lease;
mod lease_text;
mod ledger;
mod lending;
mod memory;
mod module;
mod numpy_arrays;
mod operations;
mod owners;
mod passport;
mod places;
mod pool;
mod protocols;
mod quick;
mod reaper;
mod routes;
mod stream;
mod tickets;
mod torch;
mod untrusted;
mod wrap;
mod xla;

use pyo3::prelude::*;

/// The native half of gpulend. Use the names that `gpulend` itself exports.
// The GIL guards what `attached` holds, so `init` refuses a Python that runs without.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::borrowing::borrow;
    #[pymodule_export]
    use crate::compiler::{
        cache_folder, compile_ptx, demangled, describe_compiler, describe_nvrtc, is_image,
        program_headers, takes_next_word, toolkit_folders, with_release,
    };
    #[pymodule_export]
    use crate::consumer::PyConsumer;
    #[pymodule_export]
    use crate::copies::PyCopy;
    #[pymodule_export]
    use crate::counts::route_counts;
    #[pymodule_export]
    use crate::cupy::_read_cupy;
    #[pymodule_export]
    use crate::device::PyDevice;
    #[pymodule_export]
    use crate::driver::{
        describe_driver, device_count, driver_folder, is_available, rehearse, report, set_faults,
        simulate, simulator_library,
    };
    #[pymodule_export]
    use crate::dtype::PyDtype;
    #[pymodule_export]
    use crate::frameworks::_forget_routes;
    #[pymodule_export]
    use crate::graph::{PyGraph, capture};
    #[pymodule_export]
    use crate::handles::{handle_of, lease_of, set_compilers};
    #[pymodule_export]
    use crate::hints::nvidia_package;
    #[pymodule_export]
    use crate::kernel::{PyKernel, PyTimed};
    #[pymodule_export]
    use crate::launcher::PyLauncher;
    #[pymodule_export]
    use crate::layouts::layouts_of;
    #[pymodule_export]
    use crate::lease::PyLease;
    #[pymodule_export]
    use crate::ledger::{entries, live, locate};
    #[pymodule_export]
    use crate::lending::{PyExport, lend};
    #[pymodule_export]
    use crate::memory::{empty, empty_like, from_host, full, mem_get_info, zeros, zeros_like};
    #[pymodule_export]
    use crate::module::{PyKernelModule, compile_module, load_module};
    #[pymodule_export]
    use crate::operations::{check_array, kernel_parameters};
    #[pymodule_export]
    use crate::passport::{PyPassport, describe};
    #[pymodule_export]
    use crate::pool::{
        pool_allocate, pool_free, pool_is_on, pool_reset_peak, pool_set_limit, pool_set_mode,
        pool_trim, pool_usage, torch_fail, torch_streams,
    };
    #[pymodule_export]
    use crate::routes::{_reroute, route};
    #[pymodule_export]
    use crate::stream::{PyEvent, PyStream, current_stream, synchronize};
    #[pymodule_export]
    use crate::tickets::{
        check_ticket, claim, claims, end_tickets, ticket_copies, withdraw_ticket,
    };
    #[pymodule_export]
    use crate::torch::{PyTorchOperation, torch_operation};
    #[pymodule_export]
    use crate::wrap::wrap;
    #[pymodule_export]
    use crate::xla::{xla_handlers, xla_launch};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::attached::require_gil(module.py())?;
        crate::errors::import(module.py())?;
        crate::kernel::PyKernel::shorten(module.py());
        crate::free_list::install::<crate::launcher::PyLauncher>(module.py());
        crate::free_list::install::<crate::lending::PyExport>(module.py());
        crate::free_list::install::<crate::passport::PyPassport>(module.py());
        crate::lease::PyLease::shorten(module.py());
        crate::borrowing::shorten(module)?;
        crate::lending::shorten(module)?;
        crate::wrap::shorten(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("ERROR_CODES", crate::errors::table())?;
        crate::driver::set_simulator(module.py())?;
        crate::handles::be_the_only_copy()?;
        crate::reaper::drain_at_exit(module.py())
    }
}
