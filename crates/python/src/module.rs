//! `gpulend.Module`: what `gpulend.compile` returns.

use std::path::PathBuf;

use gpulend::compiler::{Choice, Toolkit};
use gpulend::driver::driver;
use gpulend::kernel::Kernel;
use gpulend::module::{Module, Recipe};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};

use crate::compiler::{Remark, remark};
use crate::device::PyDevice;
use crate::errors::raise;
use crate::kernel::PyKernel;
use crate::lease::PyLease;
use crate::stream;

/// Compiled kernels and variables of one device: what `compile` returns.
///
/// `module["name"]` is a kernel, `module.variable("name")` a lease over a variable. The module is loaded into its device at
/// the first launch or question that needs that.
#[pyclass(frozen, name = "Module", module = "gpulend", weakref)]
pub(crate) struct PyKernelModule(Module);

#[pymethods]
impl PyKernelModule {
    /// The names of the kernels.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.kernels().iter().map(|kernel| kernel.name.to_string()))
    }

    /// The names of the variables.
    #[getter]
    fn variables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.variables().iter().map(|variable| variable.name.to_string()))
    }

    /// The device that it is for.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.0.device())
    }

    /// What compiled it: "clang", "nvrtc", or "image" if that was done before.
    #[getter]
    fn compiler(&self) -> &'static str {
        self.0.compiler()
    }

    /// A lease over a `__device__` or `__constant__` variable, with the type and the extents it was declared with.
    ///
    /// Structs, and variables of images without types, are bytes.
    ///
    /// >>> import gpulend, numpy as np
    /// >>> module = gpulend.compile("__device__ int counter; __global__ void f() { atomicAdd(&counter, 1); }")
    /// >>> counter = module.variable("counter")
    /// >>> counter.copy_from(np.array(40, "int32"))
    /// >>> module["f"][1, 2]()
    /// >>> int(counter.to_host())
    /// 42
    fn variable<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyLease>> {
        let lease = py.detach(|| self.0.variable(name)).map_err(raise)?;
        PyLease::new(lease).publish(py)
    }

    fn __getitem__(slf: &Bound<'_, Self>, name: &str) -> PyResult<PyKernel> {
        let py = slf.py();
        let module = slf.get().0.clone();
        let found = py.detach(|| module.find(name)).map_err(raise)?;
        if found.apart {
            let kernels = py.import(intern!(py, "gpulend.kernels"))?;
            kernels.call_method1(intern!(py, "warn_apart"), (name,))?;
        }
        Ok(PyKernel::new(Kernel::new(found), slf.clone().unbind()))
    }

    fn __contains__(&self, name: &str) -> bool {
        self.0.has(name)
    }

    fn __len__(&self) -> usize {
        self.0.kernels().len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.names(py)?.try_iter()
    }

    fn __repr__(&self) -> String {
        let names: Vec<String> =
            self.0.kernels().iter().map(|kernel| kernel.name.to_string()).collect();
        format!("<gpulend.Module of {} for {}>", names.join(", "), self.0.device())
    }
}

/// Compiles a source for a device: the module, and what the compiler warned of. `roots` is called for folders that have a `lib`
/// or an `include` of NVIDIA's.
#[pyfunction]
#[pyo3(signature = (text, file, options, headers, names, compiler, device, ziglang, roots, /))]
#[expect(clippy::too_many_arguments, reason = "`gpulend.compile` names them")]
pub(crate) fn compile_module(
    py: Python<'_>,
    text: String,
    file: String,
    options: Vec<String>,
    headers: Vec<(String, String)>,
    names: Vec<String>,
    compiler: &str,
    device: Option<&Bound<'_, PyAny>>,
    ziglang: Option<PathBuf>,
    roots: &Bound<'_, PyAny>,
) -> PyResult<(PyKernelModule, Vec<Remark>)> {
    let choice = match compiler {
        "auto" => Choice::Auto,
        "nvrtc" => Choice::Nvrtc,
        "clang" => Choice::Clang,
        _ => {
            let message =
                format!("compiler is {compiler:?}; it can be \"auto\", \"nvrtc\" or \"clang\"");
            return Err(PyValueError::new_err(message));
        }
    };
    let index = stream::index_of(device)?;
    let simulated = py.detach(|| driver().map(|driver| driver.is_simulated())).map_err(raise)?;
    // Only NVRTC needs them, and to look for them can take longer than to find a kernel compiled.
    let toolkit = if simulated {
        Toolkit::default()
    } else {
        Toolkit::find(&roots.call0()?.extract::<Vec<PathBuf>>()?)
    };
    let recipe = Recipe { text, file, options, headers, names, choice, ziglang, toolkit };
    let module = py.detach(|| Module::compile(recipe, index)).map_err(raise)?;
    let warnings = module.warnings().iter().map(remark).collect();
    Ok((PyKernelModule(module), warnings))
}

/// Takes PTX, a cubin or a fatbin for a device.
#[pyfunction]
#[pyo3(signature = (image, device, /))]
pub(crate) fn load_module(
    py: Python<'_>,
    image: Vec<u8>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyKernelModule> {
    let index = stream::index_of(device)?;
    py.detach(|| Module::from_image(&image, index)).map(PyKernelModule).map_err(raise)
}
