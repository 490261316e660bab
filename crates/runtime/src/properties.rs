//! The properties of a device, in one struct.

use std::ffi::{c_char, c_int, c_uint};

use crate::driver::Driver;
use crate::error::{Error, Outcome};
use crate::state::{device, driver};
use crate::wire::{In, Out, runtime};

/// A type that holds attributes of a device, one after the other.
trait Filled: Sized {
    /// Reads the attributes. One that the driver does not know is zero.
    fn fill(read: &dyn Fn(c_int) -> c_int, which: &[c_int]) -> Self;
}

impl Filled for c_int {
    fn fill(read: &dyn Fn(c_int) -> c_int, which: &[c_int]) -> Self {
        which.first().map_or(0, |which| read(*which))
    }
}

impl Filled for c_uint {
    fn fill(read: &dyn Fn(c_int) -> c_int, which: &[c_int]) -> Self {
        Self::try_from(c_int::fill(read, which)).unwrap_or(0)
    }
}

impl Filled for usize {
    fn fill(read: &dyn Fn(c_int) -> c_int, which: &[c_int]) -> Self {
        Self::try_from(c_int::fill(read, which)).unwrap_or(0)
    }
}

impl<const N: usize> Filled for [c_int; N] {
    fn fill(read: &dyn Fn(c_int) -> c_int, which: &[c_int]) -> Self {
        std::array::from_fn(|index| which.get(index).map_or(0, |which| read(*which)))
    }
}

macro_rules! properties {
    ($($first:ident: $first_type:ty;)* @attributes $($name:ident: $type:ty = $which:expr;)* @rest $last:ident: $last_type:ty;) => {
        /// `cudaDeviceProp`. CUDA's documentation says what each field means.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case, reason = "the names are CUDA's")]
        pub struct Properties {
            $($first: $first_type,)*
            $($name: $type,)*
            $last: $last_type,
        }

        impl Properties {
            /// Reads those that are attributes.
            fn of_attributes(read: &dyn Fn(c_int) -> c_int) -> Self {
                Self {
                    name: [0; 256],
                    uuid: [0; 16],
                    luid: [0; 8],
                    luidDeviceNodeMask: 0,
                    totalGlobalMem: 0,
                    $($name: Filled::fill(read, &$which),)*
                    $last: [0; 63],
                }
            }

            /// The offset of each field, for the test that compares them with the header's.
            #[cfg(test)]
            const OFFSETS: &[(&str, usize)] = &[
                $((stringify!($first), std::mem::offset_of!(Self, $first)),)*
                $((stringify!($name), std::mem::offset_of!(Self, $name)),)*
                (stringify!($last), std::mem::offset_of!(Self, $last)),
            ];
        }
    };
}

properties! {
    name: [u8; 256];
    uuid: [u8; 16];
    luid: [u8; 8];
    luidDeviceNodeMask: c_uint;
    totalGlobalMem: usize;
    @attributes
    sharedMemPerBlock: usize = [8];
    regsPerBlock: c_int = [12];
    warpSize: c_int = [10];
    memPitch: usize = [11];
    maxThreadsPerBlock: c_int = [1];
    maxThreadsDim: [c_int; 3] = [2, 3, 4];
    maxGridSize: [c_int; 3] = [5, 6, 7];
    clockRate: c_int = [13];
    totalConstMem: usize = [9];
    major: c_int = [75];
    minor: c_int = [76];
    textureAlignment: usize = [14];
    texturePitchAlignment: usize = [51];
    deviceOverlap: c_int = [15];
    multiProcessorCount: c_int = [16];
    kernelExecTimeoutEnabled: c_int = [17];
    integrated: c_int = [18];
    canMapHostMemory: c_int = [19];
    computeMode: c_int = [20];
    maxTexture1D: c_int = [21];
    maxTexture1DMipmap: c_int = [77];
    maxTexture1DLinear: c_int = [69];
    maxTexture2D: [c_int; 2] = [22, 23];
    maxTexture2DMipmap: [c_int; 2] = [73, 74];
    maxTexture2DLinear: [c_int; 3] = [70, 71, 72];
    maxTexture2DGather: [c_int; 2] = [45, 46];
    maxTexture3D: [c_int; 3] = [24, 25, 26];
    maxTexture3DAlt: [c_int; 3] = [47, 48, 49];
    maxTextureCubemap: c_int = [52];
    maxTexture1DLayered: [c_int; 2] = [42, 43];
    maxTexture2DLayered: [c_int; 3] = [27, 28, 29];
    maxTextureCubemapLayered: [c_int; 2] = [53, 54];
    maxSurface1D: c_int = [55];
    maxSurface2D: [c_int; 2] = [56, 57];
    maxSurface3D: [c_int; 3] = [58, 59, 60];
    maxSurface1DLayered: [c_int; 2] = [61, 62];
    maxSurface2DLayered: [c_int; 3] = [63, 64, 65];
    maxSurfaceCubemap: c_int = [66];
    maxSurfaceCubemapLayered: [c_int; 2] = [67, 68];
    surfaceAlignment: usize = [30];
    concurrentKernels: c_int = [31];
    ECCEnabled: c_int = [32];
    pciBusID: c_int = [33];
    pciDeviceID: c_int = [34];
    pciDomainID: c_int = [50];
    tccDriver: c_int = [35];
    asyncEngineCount: c_int = [40];
    unifiedAddressing: c_int = [41];
    memoryClockRate: c_int = [36];
    memoryBusWidth: c_int = [37];
    l2CacheSize: c_int = [38];
    persistingL2CacheMaxSize: c_int = [108];
    maxThreadsPerMultiProcessor: c_int = [39];
    streamPrioritiesSupported: c_int = [78];
    globalL1CacheSupported: c_int = [79];
    localL1CacheSupported: c_int = [80];
    sharedMemPerMultiprocessor: usize = [81];
    regsPerMultiprocessor: c_int = [82];
    managedMemory: c_int = [83];
    isMultiGpuBoard: c_int = [84];
    multiGpuBoardGroupID: c_int = [85];
    hostNativeAtomicSupported: c_int = [86];
    singleToDoublePrecisionPerfRatio: c_int = [87];
    pageableMemoryAccess: c_int = [88];
    concurrentManagedAccess: c_int = [89];
    computePreemptionSupported: c_int = [90];
    canUseHostPointerForRegisteredMem: c_int = [91];
    cooperativeLaunch: c_int = [95];
    cooperativeMultiDeviceLaunch: c_int = [96];
    sharedMemPerBlockOptin: usize = [97];
    pageableMemoryAccessUsesHostPageTables: c_int = [100];
    directManagedMemAccessFromHost: c_int = [101];
    maxBlocksPerMultiProcessor: c_int = [106];
    accessPolicyMaxWindowSize: c_int = [109];
    reservedSharedMemPerBlock: usize = [111];
    hostRegisterSupported: c_int = [99];
    sparseCudaArraySupported: c_int = [112];
    hostRegisterReadOnlySupported: c_int = [113];
    timelineSemaphoreInteropSupported: c_int = [114];
    memoryPoolsSupported: c_int = [115];
    gpuDirectRDMASupported: c_int = [116];
    gpuDirectRDMAFlushWritesOptions: c_uint = [117];
    gpuDirectRDMAWritesOrdering: c_int = [118];
    memoryPoolSupportedHandleTypes: c_uint = [119];
    deferredMappingCudaArraySupported: c_int = [121];
    ipcEventSupported: c_int = [125];
    clusterLaunch: c_int = [120];
    unifiedFunctionPointers: c_int = [129];
    @rest
    reserved: [c_int; 63];
}

/// Returns the properties of a device.
fn properties(driver: &Driver, index: c_int) -> Outcome<Properties> {
    let device = device(driver, index)?;
    let read = |which| {
        let mut value = 0;
        // SAFETY: one int is written.
        let known = unsafe { driver.cuDeviceGetAttribute(&raw mut value, which, device) };
        known.map_or(0, |()| value)
    };
    let mut found = Properties::of_attributes(&read);
    // The last byte stays NUL.
    let name = found.name.as_mut_ptr().cast::<c_char>();
    // SAFETY: at most 255 bytes are written, and there are 256.
    unsafe { driver.cuDeviceGetName(name, 255, device) }?;
    // SAFETY: one size is written.
    unsafe { driver.cuDeviceTotalMem_v2(&raw mut found.totalGlobalMem, device) }?;
    // SAFETY: 16 bytes are written.
    unsafe { driver.cuDeviceGetUuid(&raw mut found.uuid, device) }?;
    // Only Windows has it.
    // SAFETY: eight bytes and an int are written.
    let _ = unsafe {
        driver.cuDeviceGetLuid(&raw mut found.luid, &raw mut found.luidDeviceNodeMask, device)
    };
    Ok(found)
}

/// Returns how well a device suits: whether each wish is met, the more important first.
fn suits(found: &Properties, wanted: &Properties) -> [bool; 4] {
    [
        (found.major, found.minor) >= (wanted.major, wanted.minor),
        found.totalGlobalMem >= wanted.totalGlobalMem,
        found.multiProcessorCount >= wanted.multiProcessorCount,
        found.sharedMemPerBlock >= wanted.sharedMemPerBlock,
    ]
}

fn choose(wanted: &Properties) -> Outcome<c_int> {
    let driver = driver()?;
    let mut count = 0;
    // SAFETY: one int is written.
    unsafe { driver.cuDeviceGetCount(&raw mut count) }?;
    let mut best = Err(Error::NO_DEVICE);
    let mut score = [false; 4];
    for index in 0..count {
        let suits = suits(&properties(driver, index)?, wanted);
        if best.is_err() || suits > score {
            (best, score) = (Ok(index), suits);
        }
    }
    best
}

runtime! {
    /// Returns the properties of a device.
    fn cudaGetDeviceProperties(place: Out<Properties>, index: c_int) {
        place.required()?;
        place.put(properties(driver()?, index)?)
    }

    /// Returns the properties of a device. This is the name that CUDA 12's headers give it.
    fn cudaGetDeviceProperties_v2(place: Out<Properties>, index: c_int) {
        place.required()?;
        place.put(properties(driver()?, index)?)
    }

    /// Returns the device that suits the given properties best.
    fn cudaChooseDevice(number: Out<c_int>, wanted: In<Properties>) {
        number.required()?;
        number.put(choose(&wanted.get()?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header's fields, in order, as `(name, type, length)`.
    fn fields_of_the_header() -> Vec<(String, String, usize)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/headers/program/driver_types.h");
        let text = std::fs::read_to_string(path).unwrap();
        let body =
            text.split("struct cudaDeviceProp {").nth(1).unwrap().split("};").next().unwrap();
        let lines = body.lines().map(|line| line.split("/*").next().unwrap().trim());
        let fields = lines.filter_map(|line| line.strip_suffix(';')).map(|line| {
            let (kind, name) = line.rsplit_once(' ').unwrap();
            let (name, length) = name.split_once('[').unwrap_or((name, "1]"));
            (name.to_owned(), kind.to_owned(), length.trim_end_matches(']').parse().unwrap())
        });
        fields.collect()
    }

    #[test]
    fn the_headers_fields_lie_where_ours_do() {
        let fields = fields_of_the_header();
        assert_eq!(fields.len(), Properties::OFFSETS.len());
        let mut end = 0_usize;
        for ((name, kind, length), (ours, offset)) in fields.iter().zip(Properties::OFFSETS) {
            let (size, align) = match kind.as_str() {
                "char" => (1, 1),
                "int" | "unsigned int" => (4, 4),
                "cudaUUID_t" => (16, 1),
                "size_t" => (8, 8),
                other => panic!("{other} {name}"),
            };
            end = end.next_multiple_of(align);
            assert_eq!((name.as_str(), end), (*ours, *offset));
            end += size * length;
        }
        assert_eq!(end.next_multiple_of(8), size_of::<Properties>());
    }
}
