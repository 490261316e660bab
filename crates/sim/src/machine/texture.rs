//! Texture and surface objects: what they are made of, checked and returned as given. No kernel reads through them yet.
#![forbid(unsafe_code)]

use super::array::{self, element};
use super::memory::Found;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

const INVALID: Status = Status::ERROR_INVALID_VALUE;
/// `CU_TRSF_NORMALIZED_COORDINATES`, which arrays with levels need.
const NORMALIZED: u32 = 2;

/// Returns an attribute of a device that is about textures and surfaces, by CUDA's number: mostly the sizes that
/// arrays may have, as CUDA's guide lists them for these processors.
#[must_use]
pub fn limit(attribute: i32) -> i32 {
    match attribute {
        // Of one axis and of two: 2¹⁷ elements, and 2¹⁶ rows.
        21 | 22 | 56 => 131_072,
        23 | 57 => 65_536,
        24..=26 | 58..=60 => 16_384,
        // With layers, as cubes, to gather from, with levels.
        27 | 28 | 42 | 45 | 46 | 52 | 53 | 73 | 74 | 77 => 32_768,
        29 | 43 => 2048,
        54 => 2046,
        44 => 1,
        // Of three axes, if one is longer.
        47 | 48 => 8192,
        49 => 32_768,
        // Surfaces.
        55 | 61 | 63 | 64 | 66 | 67 => 32_768,
        62 | 65 => 2048,
        68 => 2046,
        // In linear memory, and with rows in it.
        69 => 1 << 28,
        70 => 131_072,
        71 => 65_000,
        72 => 2_097_120,
        // Alignments: of textures and surfaces in memory, of the distance of rows.
        14 | 30 => 512,
        51 => 32,
        _ => 0,
    }
}

fn most(attribute: i32) -> usize {
    usize::try_from(limit(attribute)).unwrap_or(0)
}

/// Returns the most elements of a texture in linear memory.
#[must_use]
pub fn most_linear() -> usize {
    most(69)
}

/// The words of `CUDA_RESOURCE_DESC`, `CUDA_TEXTURE_DESC` and `CUDA_RESOURCE_VIEW_DESC`.
pub type ResourceWords = [u64; 18];
/// See [`ResourceWords`].
pub type SamplingWords = [u32; 26];
/// See [`ResourceWords`].
pub type ViewWords = [u64; 14];

/// What elements are, in memory without an array.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// The address of the first.
    pub address: usize,
    /// `CUarray_format`.
    pub format: u32,
    /// Numbers in an element.
    pub channels: u32,
}

/// What a texture or a surface is made of.
#[derive(Clone, Copy, Debug)]
pub enum Resource {
    /// An array.
    Array(usize),
    /// An array with levels.
    Mipmap(usize),
    /// So many bytes of memory.
    Linear(Elements, usize),
    /// Rows of memory: elements in a row, rows, distance in bytes.
    Pitched(Elements, [usize; 3]),
}

/// A texture object.
#[derive(Debug)]
pub struct Texture {
    context: usize,
    /// What it is made of.
    pub resource: ResourceWords,
    /// How it is read.
    pub sampling: SamplingWords,
    /// Which part of an array it shows, and as what, if that was said.
    pub view: Option<ViewWords>,
}

/// A surface object.
#[derive(Debug)]
pub struct Surface {
    context: usize,
    /// What it is made of.
    pub resource: ResourceWords,
}

/// Refuses modes and flags that CUDA does not have.
fn check_sampling(words: &SamplingWords) -> Outcome<()> {
    // Three address modes, filter, flags, anisotropy, filter of levels, their bias and limits, colour of the border.
    let [x, y, z, filter, flags, _, levels, ..] = *words;
    let modes = [x, y, z].iter().all(|mode| *mode <= 3);
    // As integers, normalized coordinates, sRGB, no trilinear optimization, seamless cubes.
    let known = flags & !0x73 == 0;
    if modes && filter <= 1 && levels <= 1 && known { Ok(()) } else { Err(INVALID) }
}

/// Refuses a view in a format that CUDA does not have, or whose last level or layer is before the first.
fn check_view(words: &ViewWords) -> Outcome<()> {
    let halves = |word: u64| (word & 0xFFFF_FFFF, word >> 32);
    let (format, (first_level, last_level)) = (halves(words[0]).0, halves(words[4]));
    let (first_layer, last_layer) = halves(words[5]);
    if format <= 0x22 && first_level <= last_level && first_layer <= last_layer {
        Ok(())
    } else {
        Err(INVALID)
    }
}

impl State {
    /// Refuses memory that no device reaches, or that is not as textures need it.
    fn check_elements(&mut self, caller: &Caller, elements: Elements, bytes: usize) -> Outcome<()> {
        let address = elements.address;
        let what = match self.memory.find(address) {
            Found::Allocation(base, found)
                if self.passport(address).is_some()
                    && bytes <= found.range.bytes() - (address - base) =>
            {
                if address.is_multiple_of(most(14)) {
                    return Ok(());
                }
                "texture of memory that is not aligned to 512 bytes"
            }
            Found::Allocation(..) => "texture of more than an allocation has",
            Found::Nothing | Found::Elsewhere => "texture of memory that no device reaches",
        };
        Err(self.fault(caller, INVALID, what, address))
    }

    /// Refuses a resource that does not exist or is beyond the limits.
    fn check_resource(&mut self, caller: &Caller, resource: Resource) -> Outcome<()> {
        match resource {
            Resource::Array(array) => self.array(caller, array).map(|_| ()),
            Resource::Mipmap(mipmap) if self.has_mipmap(mipmap) => Ok(()),
            Resource::Mipmap(_) => Err(Status::ERROR_INVALID_HANDLE),
            Resource::Linear(elements, bytes) => {
                let element = element(elements.format, elements.channels)?;
                if bytes < element || bytes / element > most_linear() {
                    return Err(INVALID);
                }
                self.check_elements(caller, elements, bytes)
            }
            Resource::Pitched(elements, [width, height, pitch]) => {
                let element = element(elements.format, elements.channels)?;
                let sizes = (1..=most(70)).contains(&width) && (1..=most(71)).contains(&height);
                let rows = pitch <= most(72) && pitch.is_multiple_of(most(51));
                if !sizes || !rows || width * element > pitch {
                    return Err(INVALID);
                }
                self.check_elements(caller, elements, (height - 1) * pitch + width * element)
            }
        }
    }

    /// Forgets the textures and surfaces of a context.
    pub fn end_textures(&mut self, context: usize) {
        self.textures.retain(|texture| texture.context != context);
        self.surfaces.retain(|surface| surface.context != context);
    }
}

impl Machine {
    /// Makes a texture object. The words are what the caller gave, to be returned.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, `INVALID_HANDLE`, or `NOT_SUPPORTED` for a format that arrays do not have.
    pub fn create_texture(
        &self,
        caller: &Caller,
        context: usize,
        resource: Resource,
        (words, sampling, view): (ResourceWords, SamplingWords, Option<ViewWords>),
    ) -> Outcome<usize> {
        let mut state = self.lock();
        state.context(context)?;
        check_sampling(&sampling)?;
        if matches!(resource, Resource::Mipmap(_)) && sampling[4] & NORMALIZED == 0 {
            return Err(INVALID);
        }
        if let Some(view) = &view {
            check_view(view)?;
            if !matches!(resource, Resource::Array(_) | Resource::Mipmap(_)) {
                return Err(INVALID);
            }
        }
        state.check_resource(caller, resource)?;
        Ok(state.textures.add(Texture { context, resource: words, sampling, view }))
    }

    /// Makes a surface object.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`; `INVALID_VALUE` unless it is an array that was made for surfaces.
    pub fn create_surface(
        &self,
        caller: &Caller,
        context: usize,
        resource: Resource,
        words: ResourceWords,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        state.context(context)?;
        let Resource::Array(array) = resource else { return Err(INVALID) };
        if state.array(caller, array)?.form.flags & array::SURFACE == 0 {
            let what = "surface of an array that was not made for surfaces";
            return Err(state.fault(caller, INVALID, what, array));
        }
        Ok(state.surfaces.add(Surface { context, resource: words }))
    }
}
