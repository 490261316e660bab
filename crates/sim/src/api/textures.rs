//! Texture and surface objects.

use super::pointer::{In, Out};
use super::{Call, entry};
use crate::machine::array::element;
use crate::machine::texture::{
    Elements, Resource, ResourceWords, SamplingWords, ViewWords, most_linear,
};
use crate::status::{Outcome, Status};

const INVALID: Status = Status::ERROR_INVALID_VALUE;

/// `CUresourcetype`.
const ARRAY: u64 = 0;
const MIPMAP: u64 = 1;
const MEMORY: u64 = 2;
const ROWS: u64 = 3;

/// Returns what the words of a `CUDA_RESOURCE_DESC` say: the type, 16 words of a union, the flags.
fn resource(words: &ResourceWords) -> Outcome<Resource> {
    let low = |word: u64| u32::try_from(word & 0xFFFF_FFFF).unwrap_or(0);
    let number = |index: usize| usize::try_from(words[index]).unwrap_or(0);
    // All flags are reserved.
    if low(words[17]) != 0 {
        return Err(INVALID);
    }
    let [format, channels] = [low(words[2]), low(words[2] >> 32)];
    let elements = Elements { address: number(1), format, channels };
    match u64::from(low(words[0])) {
        ARRAY => Ok(Resource::Array(number(1))),
        MIPMAP => Ok(Resource::Mipmap(number(1))),
        MEMORY => Ok(Resource::Linear(elements, number(3))),
        ROWS => Ok(Resource::Pitched(elements, [number(3), number(4), number(5)])),
        _ => Err(INVALID),
    }
}

entry! {
    /// Makes a texture object. No kernel reads through it: PTX with textures is refused.
    fn cuTexObjectCreate(
        texture: Out<usize>,
        made_of: In<ResourceWords>,
        sampling: In<SamplingWords>,
        view: In<ViewWords>,
    ) |call| {
        texture.required()?;
        let (machine, context) = (call.machine()?, call.context()?);
        let words = made_of.get()?;
        let view = if view.is_null() { None } else { Some(view.get()?) };
        let given = (words, sampling.get()?, view);
        texture.put(machine.create_texture(&call.caller(), context, resource(&words)?, given)?)
    }
}

entry! {
    /// Makes a surface object.
    fn cuSurfObjectCreate(surface: Out<usize>, made_of: In<ResourceWords>) |call| {
        surface.required()?;
        let (machine, context) = (call.machine()?, call.context()?);
        let words = made_of.get()?;
        surface.put(machine.create_surface(&call.caller(), context, resource(&words)?, words)?)
    }
}

impl Call {
    /// Destroys a texture or a surface by its number in one of the machine's tables.
    fn destroy_object(self, found: bool, handle: usize, what: &str) -> Outcome<()> {
        if found {
            return Ok(());
        }
        Err(self.machine()?.lock().fault(&self.caller(), INVALID, what, handle))
    }
}

entry! {
    /// Destroys a texture object; not what it is made of.
    fn cuTexObjectDestroy(texture: usize) |call| {
        let found = call.machine()?.lock().textures.remove(texture).is_some();
        call.destroy_object(found, texture, "destroying a texture object that does not exist")
    }
}

entry! {
    /// Destroys a surface object; not what it is made of.
    fn cuSurfObjectDestroy(surface: usize) |call| {
        let found = call.machine()?.lock().surfaces.remove(surface).is_some();
        call.destroy_object(found, surface, "destroying a surface object that does not exist")
    }
}

entry! {
    /// Returns what a texture is made of, as it was given.
    fn cuTexObjectGetResourceDesc(made_of: Out<ResourceWords>, texture: usize) |call| {
        let state = call.machine()?.lock();
        made_of.put(state.textures.get(texture).ok_or(INVALID)?.resource)
    }
}

entry! {
    /// Returns how a texture is read, as it was given.
    fn cuTexObjectGetTextureDesc(sampling: Out<SamplingWords>, texture: usize) |call| {
        let state = call.machine()?.lock();
        sampling.put(state.textures.get(texture).ok_or(INVALID)?.sampling)
    }
}

entry! {
    /// Returns which part of an array a texture shows, if that was given.
    fn cuTexObjectGetResourceViewDesc(view: Out<ViewWords>, texture: usize) |call| {
        let state = call.machine()?.lock();
        view.put(state.textures.get(texture).and_then(|found| found.view).ok_or(INVALID)?)
    }
}

entry! {
    /// Returns what a surface is made of, as it was given.
    fn cuSurfObjectGetResourceDesc(made_of: Out<ResourceWords>, surface: usize) |call| {
        let state = call.machine()?.lock();
        made_of.put(state.surfaces.get(surface).ok_or(INVALID)?.resource)
    }
}

entry! {
    /// Returns the most elements of a texture of one axis in memory, for a format that textures have.
    fn cuDeviceGetTexture1DLinearMaxWidth(most: Out<usize>, format: u32, channels: u32, device: i32) |call| {
        call.device(device)?;
        element(format, channels)?;
        most.put(most_linear())
    }
}
