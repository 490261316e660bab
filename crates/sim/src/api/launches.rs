//! Kernel launches, with current functions and with those from before CUDA 4.

use super::pointer::{Address, In};
use super::{Call, entry, thread};
use crate::machine::function::{Description, Prepared};
use crate::machine::launch::{COOPERATIVE, Request};
use crate::status::{Outcome, Status};

/// `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE` and `CU_LAUNCH_PARAM_END`.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;
const END: usize = 0;

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    id: i32,
    padding: i32,
    value: [u32; 16],
}

impl Attribute {
    /// Makes an attribute.
    pub(super) fn new(id: i32, value: [u32; 16]) -> Self {
        Self { id, padding: 0, value }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: usize,
    attributes: In<Attribute>,
    count: u32,
}

const _: () = {
    assert!(size_of::<Attribute>() == 72);
    assert!(std::mem::offset_of!(Attribute, value) == 8);
    assert!(size_of::<Configuration>() == 56);
    assert!(std::mem::offset_of!(Configuration, stream) == 32);
    assert!(std::mem::offset_of!(Configuration, count) == 48);
};

/// Grid, block and dynamic shared memory.
type Shape = ([u32; 3], [u32; 3], u32);

/// Collects parameters that are behind one pointer each.
fn scattered(kernel: &Description, pointers: In<In<u8>>) -> Outcome<Vec<u8>> {
    let kernel = kernel.kernel()?;
    let mut params = vec![0; kernel.param_bytes as usize];
    for (index, param) in kernel.params.iter().enumerate() {
        let value = pointers.element(index).get()?.list(param.bytes as usize)?;
        let (start, end) = (param.offset as usize, param.offset as usize + value.len());
        let room = params.get_mut(start..end).ok_or(Status::ERROR_INVALID_VALUE)?;
        room.copy_from_slice(&value);
    }
    Ok(params)
}

/// Reads parameters from one buffer.
fn packed(extra: In<Address>) -> Outcome<Vec<u8>> {
    let (mut buffer, mut bytes) = (None, None);
    let mut index = 0;
    loop {
        let key = extra.element(index).get()?.number();
        if key == END {
            break;
        }
        let value = extra.element(index + 1).get()?;
        match key {
            BUFFER_POINTER => buffer = Some(value.as_in::<u8>()),
            BUFFER_SIZE => bytes = Some(value.as_in::<usize>().get()?),
            _ => return Err(Status::ERROR_INVALID_VALUE),
        }
        index += 2;
    }
    match (buffer, bytes) {
        (Some(buffer), Some(bytes)) => buffer.list(bytes),
        _ => Err(Status::ERROR_INVALID_VALUE),
    }
}

/// Collects parameters, in whichever form the caller gave them.
pub(super) fn gather(
    kernel: &Description,
    pointers: In<In<u8>>,
    extra: In<Address>,
) -> Outcome<Vec<u8>> {
    match (pointers.is_null(), extra.is_null()) {
        (_, true) => scattered(kernel, pointers),
        (true, false) => packed(extra),
        (false, false) => Err(Status::ERROR_INVALID_VALUE),
    }
}

impl Call {
    /// Launches with the parameters from `gather`.
    fn launch(
        self,
        function: usize,
        ((grid, block, shared), cooperative): (Shape, bool),
        stream: usize,
        gather: impl FnOnce(&Description) -> Outcome<Vec<u8>>,
    ) -> Outcome<()> {
        let (admitted, spans) = (thread::take_admitted(), thread::take_spans());
        let stream = self.stream(stream)?;
        let kernel = self.machine()?.describe_for(&self.caller(), function, stream)?;
        let params = gather(&kernel)?;
        let request = Request { kernel, grid, block, shared, cooperative, params, admitted, spans };
        self.machine()?.launch(&self.caller(), stream, request)
    }

    fn launch_kernel(
        self,
        function: usize,
        shape: (Shape, bool),
        stream: usize,
        (pointers, extra): (In<In<u8>>, In<Address>),
    ) -> Outcome<()> {
        self.launch(function, shape, stream, |kernel| gather(kernel, pointers, extra))
    }

    /// Accepts attributes that have an effect here, or need none. Refuses others by name.
    pub(super) fn check_attribute(self, attribute: &Attribute) -> Outcome<()> {
        let [first, ..] = attribute.value;
        let is_cluster = attribute.value[..3].iter().any(|blocks| *blocks > 1);
        let what = match attribute.id {
            4 | 11 if is_cluster => "a launch in clusters",
            7 | 12 => "a launch that records an event on its way",
            13 if first != 0 => "a kernel that the device updates",
            0..=64 => return Ok(()),
            _ => return Err(Status::ERROR_INVALID_VALUE),
        };
        self.machine()?.refuse_launch(&self.caller(), what)
    }
}

entry! {
    /// Launches a kernel.
    fn [cuLaunchKernel, cuLaunchKernel_ptsz](
        function: usize,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: usize,
        parameters: In<In<u8>>,
        extra: In<Address>,
    ) |call| {
        let shape = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared);
        call.launch_kernel(function, (shape, false), stream, (parameters, extra))
    }
}

entry! {
    /// Launches a kernel whose blocks wait for each other.
    fn [cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz](
        function: usize,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: usize,
        parameters: In<In<u8>>,
    ) |call| {
        let shape = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared);
        call.launch_kernel(function, (shape, true), stream, (parameters, Address::at(0).as_in()))
    }
}

entry! {
    /// Launches a kernel with attributes.
    fn [cuLaunchKernelEx, cuLaunchKernelEx_ptsz](
        configuration: In<Configuration>,
        function: usize,
        parameters: In<In<u8>>,
        extra: In<Address>,
    ) |call| {
        call.machine()?;
        let Configuration { grid, block, shared, stream, attributes, count } = configuration.get()?;
        let mut cooperative = false;
        for attribute in attributes.list(count as usize)? {
            call.check_attribute(&attribute)?;
            if attribute.id == COOPERATIVE {
                cooperative = attribute.value[0] != 0;
            }
        }
        let shape = (grid, block, shared);
        call.launch_kernel(function, (shape, cooperative), stream, (parameters, extra))
    }
}

impl Call {
    fn prepare(
        self,
        function: usize,
        body: impl FnOnce(&mut Prepared) -> Outcome<()>,
    ) -> Outcome<()> {
        self.machine()?.prepare(&self.caller(), function, body)
    }

    /// Launches a kernel with the parameters set before.
    fn launch_prepared(
        self,
        function: usize,
        width: i32,
        height: i32,
        stream: usize,
    ) -> Outcome<()> {
        let mut prepared = None;
        self.prepare(function, |found| {
            prepared = Some(found.clone());
            Ok(())
        })?;
        let Prepared { block, shared, params } = prepared.ok_or(Status::ERROR_INVALID_HANDLE)?;
        let grid = [unsigned(width)?, unsigned(height)?, 1];
        self.launch(function, ((grid, block, shared), false), stream, |_| Ok(params))
    }
}

fn unsigned(number: i32) -> Outcome<u32> {
    u32::try_from(number).map_err(|_| Status::ERROR_INVALID_VALUE)
}

entry! {
    /// Sets the block size.
    fn cuFuncSetBlockShape(function: usize, x: i32, y: i32, z: i32) |call| {
        let block = [unsigned(x)?, unsigned(y)?, unsigned(z)?];
        if block.contains(&0) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        call.prepare(function, |prepared| {
            prepared.block = block;
            Ok(())
        })
    }
}

entry! {
    /// Sets the dynamic shared memory of a block.
    fn cuFuncSetSharedSize(function: usize, bytes: u32) |call| {
        call.prepare(function, |prepared| {
            prepared.shared = bytes;
            Ok(())
        })
    }
}

entry! {
    /// Sets the size of the parameters.
    fn cuParamSetSize(function: usize, bytes: u32) |call| {
        call.prepare(function, |prepared| prepared.resize(bytes))
    }
}

entry! {
    /// Writes a 4-byte integer to the parameters.
    fn cuParamSeti(function: usize, offset: i32, value: u32) |call| {
        call.prepare(function, |prepared| prepared.write(offset, &value.to_ne_bytes()))
    }
}

entry! {
    /// Writes a float to the parameters.
    fn cuParamSetf(function: usize, offset: i32, value: f32) |call| {
        call.prepare(function, |prepared| prepared.write(offset, &value.to_ne_bytes()))
    }
}

entry! {
    /// Writes bytes to the parameters.
    fn cuParamSetv(function: usize, offset: i32, value: In<u8>, bytes: u32) |call| {
        call.machine()?;
        let value = value.list(bytes as usize)?;
        call.prepare(function, |prepared| prepared.write(offset, &value))
    }
}

entry! {
    /// Launches one block with the parameters set before.
    fn cuLaunch(function: usize) |call| { call.launch_prepared(function, 1, 1, 0) }
}

entry! {
    /// Launches a grid with the parameters set before.
    fn cuLaunchGrid(function: usize, width: i32, height: i32) |call| {
        call.launch_prepared(function, width, height, 0)
    }
}

entry! {
    /// Launches a grid with the parameters set before, in stream order.
    fn cuLaunchGridAsync(function: usize, width: i32, height: i32, stream: usize) |call| {
        call.launch_prepared(function, width, height, stream)
    }
}
