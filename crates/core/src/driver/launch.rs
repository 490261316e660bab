//! Modules, kernels and launches. Callers make the device's primary context current first, except for
//! launches on a stream of another context.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;

use crate::abi::cuda::{
    DeviceAttribute, FunctionAttribute, FunctionHandle, JIT_ERROR_LOG_BUFFER,
    JIT_ERROR_LOG_BUFFER_SIZE, LaunchConfiguration, ModuleHandle, Status,
};
use crate::driver::cuda::Driver;
use crate::driver::log::Extent;
use crate::error::{DriverError, Error};

/// A device's limits for launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) threads: u32,
    pub(crate) block: [u32; 3],
    pub(crate) grid: [u32; 3],
    pub(crate) shared: u32,
}

/// Drivers return these values as `int`; none is negative.
fn positive(number: c_int) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

impl Driver {
    /// Loads an image. PTX must end in NUL. An error comes with the driver's log.
    pub(crate) fn load(&self, image: &[u8]) -> Result<ModuleHandle, (DriverError, String)> {
        let mut log = vec![0_u8; 16 * 1024];
        let options = [JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE];
        // The driver takes the size in place of a pointer.
        let values =
            [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut::<c_void>(log.len())];
        let mut module = ModuleHandle(0);
        // SAFETY: one handle is written; the image is read; the log has as much room as is said.
        let loaded = unsafe {
            self.module_load(
                &raw mut module,
                image.as_ptr().cast(),
                2,
                options.as_ptr(),
                values.as_ptr(),
            )
        };
        loaded.map(|()| module).map_err(|error| {
            let words = CStr::from_bytes_until_nul(&log).unwrap_or_default();
            (error, words.to_string_lossy().trim().to_owned())
        })
    }

    /// Unloads a module.
    ///
    /// # Safety
    ///
    /// It is loaded, no work of its kernels is queued or captured, and nobody uses it or its kernels afterwards.
    pub(crate) unsafe fn unload(&self, module: ModuleHandle) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.module_unload(module) }
    }

    /// A kernel of a module by its symbol, or `None` if the module has no such kernel.
    ///
    /// # Safety
    ///
    /// The module is loaded, as for all functions here that take one or a kernel of one.
    pub(crate) unsafe fn kernel(
        &self,
        module: ModuleHandle,
        symbol: &CStr,
    ) -> Result<Option<FunctionHandle>, DriverError> {
        let mut function = FunctionHandle(0);
        // SAFETY: one handle is written; the name ends in NUL; the contract.
        let status =
            unsafe { (self.functions.module_function)(&raw mut function, module, symbol.as_ptr()) };
        if status == Status::NOT_FOUND {
            return Ok(None);
        }
        self.check("cuModuleGetFunction", status)?;
        Ok(Some(function))
    }

    /// The address and size of a module's variable, or `None` if the module has no such variable.
    ///
    /// # Safety
    ///
    /// As [`Driver::kernel`].
    pub(crate) unsafe fn variable(
        &self,
        module: ModuleHandle,
        symbol: &CStr,
    ) -> Result<Option<(u64, u64)>, DriverError> {
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: an address and a size are written; the name ends in NUL; the contract.
        let status = unsafe {
            (self.functions.module_global)(
                &raw mut address,
                &raw mut bytes,
                module,
                symbol.as_ptr(),
            )
        };
        if status == Status::NOT_FOUND {
            return Ok(None);
        }
        self.check("cuModuleGetGlobal", status)?;
        Ok(Some((address, bytes as u64)))
    }

    /// The symbols of a module's kernels. Empty on drivers that cannot list them.
    ///
    /// # Safety
    ///
    /// As [`Driver::kernel`].
    pub(crate) unsafe fn symbols(&self, module: ModuleHandle) -> Result<Vec<String>, DriverError> {
        let functions = &self.functions;
        let (Some(count), Some(list), Some(name)) =
            (functions.function_count, functions.function_list, functions.function_name)
        else {
            return Ok(Vec::new());
        };
        let mut number: c_uint = 0;
        // SAFETY: one number is written; the contract.
        let status = unsafe { count(&raw mut number, module) };
        self.check("cuModuleGetFunctionCount", status)?;
        let mut found = vec![FunctionHandle(0); number as usize];
        // SAFETY: as many handles are written as there is room for; the contract.
        let status = unsafe { list(found.as_mut_ptr(), number, module) };
        self.check("cuModuleEnumerateFunctions", status)?;
        let mut symbols = Vec::new();
        for function in found {
            let mut text = ptr::null();
            // SAFETY: one pointer is written, to a string that lives as long as the module.
            let status = unsafe { name(&raw mut text, function) };
            self.check("cuFuncGetName", status)?;
            // SAFETY: as above; it ends in NUL.
            symbols.push(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        }
        Ok(symbols)
    }

    /// A parameter's offset and size. `None` past the last one, and on drivers that cannot say.
    ///
    /// # Safety
    ///
    /// As [`Driver::kernel`].
    pub(crate) unsafe fn parameter(
        &self,
        function: FunctionHandle,
        index: usize,
    ) -> Option<(u32, u32)> {
        let ask = self.functions.parameter_info?;
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: two sizes are written; the contract.
        let status = unsafe { ask(function, index, &raw mut offset, &raw mut bytes) };
        if status != Status::SUCCESS {
            return None;
        }
        u32::try_from(offset).ok().zip(u32::try_from(bytes).ok())
    }

    /// One attribute of a kernel.
    ///
    /// # Safety
    ///
    /// As [`Driver::kernel`].
    pub(crate) unsafe fn kernel_attribute(
        &self,
        function: FunctionHandle,
        which: FunctionAttribute,
    ) -> Result<u32, DriverError> {
        let mut value = 0;
        // SAFETY: one int is written; the contract.
        unsafe { self.function_attribute(&raw mut value, which, function) }?;
        Ok(positive(value))
    }

    /// Raises the limit of dynamic shared memory for a kernel's launches.
    ///
    /// # Safety
    ///
    /// As [`Driver::kernel`].
    pub(crate) unsafe fn allow_shared(
        &self,
        function: FunctionHandle,
        bytes: u32,
    ) -> Result<(), DriverError> {
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let which = FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the contract.
        unsafe { self.function_set(function, which, bytes) }
    }

    /// The block size with the highest occupancy, and the fewest blocks of it that fill the device.
    ///
    /// # Safety
    ///
    /// As [`Driver::kernel`].
    pub(crate) unsafe fn best_size(
        &self,
        function: FunctionHandle,
        shared: u32,
    ) -> Result<(u32, u32), DriverError> {
        let (mut grid, mut block) = (0, 0);
        // SAFETY: two ints are written; shared memory does not depend on the block; the contract.
        unsafe {
            self.occupancy_block(&raw mut grid, &raw mut block, function, 0, shared as usize, 0)
        }?;
        Ok((positive(grid).max(1), positive(block).max(1)))
    }

    /// How many blocks of so many threads a multiprocessor runs at once.
    ///
    /// # Safety
    ///
    /// As [`Driver::kernel`].
    pub(crate) unsafe fn active_blocks(
        &self,
        function: FunctionHandle,
        threads: u32,
        shared: u32,
    ) -> Result<u32, DriverError> {
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        // SAFETY: one int is written; the contract.
        unsafe { self.occupancy_blocks(&raw mut blocks, function, threads, shared as usize) }?;
        Ok(positive(blocks))
    }

    /// How many threads a multiprocessor of a device runs at once.
    pub(crate) fn resident_threads(&self, device: u8) -> Result<u32, Error> {
        let handle = self.device(c_int::from(device))?;
        self.attribute(DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR, handle).map(positive)
    }

    /// A device's limits for launches.
    pub(crate) fn limits(&self, device: u8) -> Result<Limits, Error> {
        let handle = self.device(c_int::from(device))?;
        let ask = |which| self.attribute(which, handle).map(positive);
        let axes = |first: DeviceAttribute| {
            let axis = |step| ask(DeviceAttribute(first.0 + step));
            Ok::<_, Error>([axis(0)?, axis(1)?, axis(2)?])
        };
        Ok(Limits {
            threads: ask(DeviceAttribute::MAX_THREADS_PER_BLOCK)?,
            block: axes(DeviceAttribute::MAX_BLOCK_DIM_X)?,
            grid: axes(DeviceAttribute::MAX_GRID_DIM_X)?,
            shared: ask(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        })
    }

    /// Allows this thread's next launch to access a range of host memory. Simulated GPU only.
    pub(crate) fn admit(&self, address: u64, bytes: u64) -> Result<(), DriverError> {
        let status =
            self.control().map_or(Status::NOT_FOUND, |control| control.admit(address, bytes));
        self.check("gpulend_sim_admit", status)
    }

    /// Limits this thread's next launch to these parts of its arguments' allocations. The simulated GPU
    /// checks it.
    pub(crate) fn limit(&self, extents: &[Extent]) {
        let Some(control) = self.control() else { return };
        for (_, start, bytes) in extents.iter().filter(|(_, _, bytes)| *bytes > 0) {
            control.span(*start, *bytes);
        }
    }

    /// Queues a launch with `cuLaunchKernelEx`, the fastest of the driver's launch functions.
    ///
    /// # Safety
    ///
    /// 1. Kernel and stream are alive, and of one context; a default stream is that of the current one.
    /// 2. There is a pointer for each parameter, to as many bytes as that has.
    /// 3. What the kernel does with them is right: until it is done, all memory that it touches is there.
    #[inline]
    pub(crate) unsafe fn launch(
        &self,
        function: FunctionHandle,
        configuration: &LaunchConfiguration,
        parameters: *const *mut c_void,
    ) -> Status {
        // SAFETY: the contract.
        unsafe { (self.functions.kernel_launch)(configuration, function, parameters, ptr::null()) }
    }

    /// The error of a refused launch, with its code.
    #[inline]
    pub(crate) fn check_launch(&self, status: Status) -> Result<(), (i32, DriverError)> {
        self.check("cuLaunchKernelEx", status).map_err(|error| (status.0, error))
    }
}
