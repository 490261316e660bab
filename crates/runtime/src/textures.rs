//! Texture and surface objects: descriptions in device memory, which kernels read.
//!
//! `gpulend/textures.h` samples them by code, on any driver. The two descriptions must agree.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arrays::{ChannelFormat, array};
use crate::error::{Error, Outcome};
use crate::state::{enter, here};
use crate::wire::{Handle, In, Out, runtime};

/// `cudaResourceDesc`: its members overlap, as the kind says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    kind: c_int,
    /// An address or a handle.
    place: u64,
    format: ChannelFormat,
    /// The bytes of linear memory, or the width of rows.
    size: usize,
    height: usize,
    pitch: usize,
}

/// `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    address: [c_int; 3],
    filter: c_int,
    read: c_int,
    srgb: c_int,
    border: [f32; 4],
    normalized: c_int,
    anisotropy: c_uint,
    mipmap_filter: c_int,
    mipmap: [f32; 3],
    untrilinear: c_int,
    seamless: c_int,
}

/// What a kernel reads: `__gpulend_texels` of `gpulend/textures.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Texels {
    data: u64,
    pitch: usize,
    slice: usize,
    width: u32,
    height: u32,
    depth: u32,
    kind: u8,
    channels: u8,
    channel_bytes: u8,
    as_parts: u8,
    mixed: u8,
    normalized: u8,
    address: [u8; 3],
    border: [f32; 4],
}

const ARRAY: c_int = 0;
const LINEAR: c_int = 2;
const ROWS: c_int = 3;
const CLAMP: u8 = 1;

/// What an object was made of.
#[derive(Clone, Copy, Debug)]
struct Object {
    resource: Resource,
    /// Not for a surface.
    how: Option<Sampling>,
    /// The context whose memory its description is in.
    context: Handle,
}

/// The objects that live.
static OBJECTS: Mutex<BTreeMap<u64, Object>> = Mutex::new(BTreeMap::new());

fn objects() -> MutexGuard<'static, BTreeMap<u64, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the objects of a context that is about to go.
pub(crate) fn forget(context: Handle) {
    objects().retain(|_, object| object.context != context);
}

fn count(size: usize) -> Outcome<u32> {
    u32::try_from(size).map_err(|_| Error::INVALID_VALUE)
}

impl Texels {
    /// The texels of a resource, one by one.
    fn of(resource: &Resource) -> Outcome<Self> {
        let of_memory = |format: ChannelFormat| -> Outcome<Self> {
            let (channels, channel_bytes) = format.channels()?;
            Ok(Self {
                data: resource.place,
                pitch: 0,
                slice: 0,
                width: 0,
                height: 1,
                depth: 1,
                kind: format.kind(),
                channels,
                channel_bytes,
                as_parts: 0,
                mixed: 0,
                normalized: 0,
                address: [CLAMP; 3],
                border: [0.0; 4],
            })
        };
        match resource.kind {
            ARRAY => {
                let handle = usize::try_from(resource.place).map_err(|_| Error::INVALID_HANDLE)?;
                let found = array(handle)?;
                let (pitch, height) = (found.pitch()?, found.extent.height.max(1));
                Ok(Self {
                    data: found.address,
                    pitch,
                    slice: pitch.checked_mul(height).ok_or(Error::INVALID_VALUE)?,
                    width: count(found.extent.width)?,
                    height: count(height)?,
                    depth: count(found.extent.depth.max(1))?,
                    ..of_memory(found.format)?
                })
            }
            LINEAR if resource.place != 0 => {
                // More than can be counted is what a caller says who does not know the size.
                let elements = resource.size / resource.format.element()?;
                let width = u32::try_from(elements).unwrap_or(u32::MAX);
                Ok(Self { width, ..of_memory(resource.format)? })
            }
            ROWS if resource.place != 0 => Ok(Self {
                width: count(resource.size)?,
                height: count(resource.height)?,
                pitch: resource.pitch,
                ..of_memory(resource.format)?
            }),
            _ => Err(Error::INVALID_VALUE),
        }
    }

    /// The same, read as a caller wishes.
    fn sampled(mut self, how: &Sampling, kind: c_int) -> Outcome<Self> {
        for (to, from) in self.address.iter_mut().zip(how.address) {
            *to = u8::try_from(from).ok().filter(|mode| *mode <= 3).ok_or(Error::INVALID_VALUE)?;
            // Wrapping and mirroring are for coordinates from 0 to 1, as the guide says.
            if how.normalized == 0 && (*to == 0 || *to == 2) {
                *to = CLAMP;
            }
        }
        if kind != LINEAR {
            self.mixed = u8::from(how.filter != 0);
            self.normalized = u8::from(how.normalized != 0);
        }
        self.as_parts = u8::from(how.read != 0 && self.kind != 2);
        if self.mixed != 0 && self.kind != 2 && self.as_parts == 0 {
            return Err(Error::INVALID_FILTER);
        }
        self.border = how.border;
        Ok(self)
    }

    /// Copies it to the device: its address is the object.
    fn upload(self) -> Outcome<u64> {
        let driver = enter()?;
        let mut address = 0;
        // SAFETY: there is a place for one address.
        unsafe { driver.cuMemAlloc_v2(&raw mut address, size_of::<Self>()) }?;
        let from = (&raw const self).cast::<c_void>();
        // SAFETY: this value is as long as what was allocated, and the call waits.
        let copied = unsafe { driver.cuMemcpyHtoD_v2(address, from, size_of::<Self>()) };
        if let Err(error) = copied {
            // SAFETY: the memory was allocated here, and nobody knows of it.
            let _ = unsafe { driver.cuMemFree_v2(address) };
            return Err(error);
        }
        Ok(address)
    }
}

fn make(object: Out<u64>, resource: Resource, how: Option<Sampling>) -> Outcome<()> {
    object.required()?;
    let context = here()?.context;
    let mut texels = Texels::of(&resource)?;
    if let Some(how) = &how {
        texels = texels.sampled(how, resource.kind)?;
    }
    let made = texels.upload()?;
    objects().insert(made, Object { resource, how, context });
    object.put(made)
}

fn destroy(object: u64) -> Outcome<()> {
    let driver = enter()?;
    if object == 0 {
        return Ok(());
    }
    objects().remove(&object).ok_or(Error::INVALID_HANDLE)?;
    // SAFETY: the memory is the object's own, and it is in no table any more.
    unsafe { driver.cuMemFree_v2(object) }
}

runtime! {
    /// Makes a texture of an array, of linear memory or of rows. Views of other formats are not supported.
    fn cudaCreateTextureObject(object: Out<u64>, resource: In<Resource>, how: In<Sampling>, view: *const c_void) {
        if !view.is_null() {
            return Err(Error::NOT_SUPPORTED);
        }
        make(object, resource.get()?, Some(how.get()?))
    }

    /// Ends a texture. Its memory stays.
    fn cudaDestroyTextureObject(object: u64) {
        destroy(object)
    }

    /// Returns what a texture was made of.
    fn cudaGetTextureObjectResourceDesc(resource: Out<Resource>, object: u64) {
        let found = objects().get(&object).copied().ok_or(Error::INVALID_HANDLE)?;
        resource.put(found.resource)
    }

    /// Returns how a texture is read.
    fn cudaGetTextureObjectTextureDesc(how: Out<Sampling>, object: u64) {
        let found = objects().get(&object).and_then(|found| found.how).ok_or(Error::INVALID_HANDLE)?;
        how.put(found)
    }

    /// Makes a surface of an array.
    fn cudaCreateSurfaceObject(object: Out<u64>, resource: In<Resource>) {
        let resource = resource.get()?;
        if resource.kind != ARRAY {
            return Err(Error::INVALID_CHANNEL);
        }
        make(object, resource, None)
    }

    /// Ends a surface. Its memory stays.
    fn cudaDestroySurfaceObject(object: u64) {
        destroy(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_descriptions_are_those_of_the_headers() {
        assert_eq!(size_of::<Resource>(), 64);
        assert_eq!(offset_of!(Resource, place), 8);
        assert_eq!(offset_of!(Resource, format), 16);
        assert_eq!(offset_of!(Resource, size), 40);
        assert_eq!(offset_of!(Resource, pitch), 56);
        assert_eq!(size_of::<Sampling>(), 72);
        assert_eq!(offset_of!(Sampling, border), 24);
        assert_eq!(offset_of!(Sampling, normalized), 40);
        assert_eq!(offset_of!(Sampling, seamless), 68);
        assert_eq!(offset_of!(Texels, width), 24);
        assert_eq!(offset_of!(Texels, kind), 36);
        assert_eq!(offset_of!(Texels, address), 42);
        assert_eq!(offset_of!(Texels, border), 48);
        assert_eq!(size_of::<Texels>(), 64);
    }
}
