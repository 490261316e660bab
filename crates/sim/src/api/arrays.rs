//! Arrays, and copies that name one.

use super::copies::Side3;
use super::pointer::{Address, In, Out};
use super::{Call, entry};
use crate::bytes::Shape;
use crate::machine::array::{Form, Part, element};
use crate::machine::copy::{Form as Order, Operand};
use crate::status::{Outcome, Status};

const INVALID: Status = Status::ERROR_INVALID_VALUE;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Flat {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Solid {
    width: usize,
    height: usize,
    depth: usize,
    format: u32,
    channels: u32,
    flags: u32,
}

const _: () = assert!(size_of::<Flat>() == 24 && size_of::<Solid>() == 40);

impl Solid {
    fn form(self) -> Form {
        let Self { width, height, depth, format, channels, flags } = self;
        Form { sizes: [width, height, depth], format, channels, flags }
    }
}

impl Call {
    /// Returns what an array is.
    fn form(self, array: usize) -> Outcome<Form> {
        let context = self.context()?;
        let mut state = self.machine()?.lock();
        state.context(context)?;
        Ok(state.array(&self.caller(), array)?.form)
    }

    fn create_array(self, array: Out<usize>, form: Form) -> Outcome<()> {
        array.required()?;
        array.put(self.machine()?.create_array(&self.caller(), self.context()?, form)?)
    }

    /// Returns the part of an array that one side of a copy names.
    pub(super) fn array_side(
        self,
        side: &Side3,
        size: [usize; 3],
    ) -> Outcome<(Operand, (usize, usize))> {
        if side.level != 0 || side.array == 0 {
            return Err(INVALID);
        }
        let part = Part { start: [side.x, side.y, side.z], size };
        self.machine()?.lock().array_operand(&self.caller(), side.array, part)
    }

    /// Returns bytes of an array of one axis.
    fn line(self, array: usize, offset: usize, bytes: usize) -> Outcome<Operand> {
        if self.form(array)?.sizes[1..] != [0, 0] {
            return Err(INVALID);
        }
        let side = Side3::of_array(array, offset);
        self.array_side(&side, [bytes, 1, 1]).map(|(operand, _)| operand)
    }

    fn copy_line(
        self,
        stream: usize,
        target: &Operand,
        source: &Operand,
        order: Order<'_>,
    ) -> Outcome<()> {
        let shape = Shape::line(source.range.bytes());
        self.machine()?.copy(&self.caller(), stream, (target, source), shape, order)
    }
}

entry! {
    /// Makes an array of one or two axes.
    fn cuArrayCreate_v2(array: Out<usize>, description: In<Flat>) |call| {
        let Flat { width, height, format, channels } = description.get()?;
        call.create_array(array, Form { sizes: [width, height, 0], format, channels, flags: 0 })
    }
}

entry! {
    /// Makes an array of up to three axes, with layers or as a cube.
    fn cuArray3DCreate_v2(array: Out<usize>, description: In<Solid>) |call| {
        call.create_array(array, description.get()?.form())
    }
}

entry! {
    /// Returns the size of an array on two axes, and what its elements are.
    fn cuArrayGetDescriptor_v2(description: Out<Flat>, array: usize) |call| {
        description.required()?;
        let Form { sizes: [width, height, _], format, channels, .. } = call.form(array)?;
        description.put(Flat { width, height, format, channels })
    }
}

entry! {
    /// Returns what an array was made as.
    fn cuArray3DGetDescriptor_v2(description: Out<Solid>, array: usize) |call| {
        description.required()?;
        let Form { sizes: [width, height, depth], format, channels, flags } = call.form(array)?;
        description.put(Solid { width, height, depth, format, channels, flags })
    }
}

entry! {
    /// Returns one of several planes of an array. No format that arrays have here has planes.
    fn cuArrayGetPlane(plane: Out<usize>, array: usize, _number: u32) |call| {
        plane.required()?;
        call.form(array)?;
        Err(INVALID)
    }
}

entry! {
    /// Destroys an array.
    fn cuArrayDestroy(array: usize) |call| {
        call.machine()?.destroy_array(&call.caller(), array)
    }
}

entry! {
    /// Makes an array with several levels.
    fn cuMipmappedArrayCreate(mipmap: Out<usize>, description: In<Solid>, levels: u32) |call| {
        mipmap.required()?;
        let (machine, form) = (call.machine()?, description.get()?.form());
        mipmap.put(machine.create_mipmap(&call.caller(), call.context()?, form, levels)?)
    }
}

entry! {
    /// Returns a level as an array, which is destroyed with the whole.
    fn cuMipmappedArrayGetLevel(array: Out<usize>, mipmap: usize, level: u32) |call| {
        array.required()?;
        let context = call.context()?;
        let mut state = call.machine()?.lock();
        state.context(context)?;
        array.put(state.level(&call.caller(), mipmap, level)?)
    }
}

entry! {
    /// Destroys an array with its levels.
    fn cuMipmappedArrayDestroy(mipmap: usize) |call| {
        call.machine()?.destroy_mipmap(&call.caller(), mipmap)
    }
}

entry! {
    /// Copies from a device to an array.
    fn [cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds](array: usize, offset: usize, source: Address, bytes: usize) |call| {
        let target = call.line(array, offset, bytes)?;
        call.copy_line(call.default_stream()?, &target, &source.device(bytes), Order::Synchronous)
    }
}

entry! {
    /// Copies from an array to a device.
    fn [cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds](target: Address, array: usize, offset: usize, bytes: usize) |call| {
        let source = call.line(array, offset, bytes)?;
        call.copy_line(call.default_stream()?, &target.device(bytes), &source, Order::Synchronous)
    }
}

entry! {
    /// Copies from the host to an array.
    fn [cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds](array: usize, offset: usize, source: Address, bytes: usize) |call| {
        let target = call.line(array, offset, bytes)?;
        call.copy_line(call.default_stream()?, &target, &source.any(bytes), Order::Synchronous)
    }
}

entry! {
    /// Copies from an array to the host.
    fn [cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds](target: Address, array: usize, offset: usize, bytes: usize) |call| {
        let source = call.line(array, offset, bytes)?;
        call.copy_line(call.default_stream()?, &target.any(bytes), &source, Order::Synchronous)
    }
}

entry! {
    /// Copies between arrays, or within one.
    fn [cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds](
        target: usize,
        target_offset: usize,
        source: usize,
        source_offset: usize,
        bytes: usize,
    ) |call| {
        let size = |form: Form| element(form.format, form.channels);
        if size(call.form(target)?)? != size(call.form(source)?)? {
            return Err(INVALID);
        }
        let target = call.line(target, target_offset, bytes)?;
        let source = call.line(source, source_offset, bytes)?;
        call.copy_line(call.default_stream()?, &target, &source, Order::Synchronous)
    }
}

entry! {
    /// Copies from the host to an array, in stream order.
    fn [cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz](
        array: usize,
        offset: usize,
        source: Address,
        bytes: usize,
        stream: usize,
    ) |call| {
        let target = call.line(array, offset, bytes)?;
        call.copy_line(call.stream(stream)?, &target, &source.any(bytes), Order::Asynchronous)
    }
}

entry! {
    /// Copies from an array to the host, in stream order.
    fn [cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz](
        target: Address,
        array: usize,
        offset: usize,
        bytes: usize,
        stream: usize,
    ) |call| {
        let source = call.line(array, offset, bytes)?;
        call.copy_line(call.stream(stream)?, &target.any(bytes), &source, Order::Asynchronous)
    }
}
