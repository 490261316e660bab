//! Devices: their attributes and primary contexts.
#![forbid(unsafe_code)]

use super::graph_memory::Usage;
use super::texture;
use crate::config::Config;
use crate::status::{Outcome, Status};

/// The newest CUDA version in the function table.
pub const DRIVER_VERSION: i32 = 13020;
/// The name of every device.
pub const NAME: &str = "Simulated GPU";

/// A kind of processor: what compilers may make for it, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// The compute capability.
    pub capability: (i32, i32),
    /// The highest limit of shared memory of a block.
    pub most_shared: u32,
    /// The limits of a multiprocessor: shared memory, threads, blocks.
    pub shared: u32,
    /// Threads.
    pub threads: u32,
    /// Blocks.
    pub blocks: u32,
}

impl Processor {
    /// `sm_75`, Turing: compilers for it use simple forms of PTX.
    pub const TURING: Self = Self {
        capability: (7, 5),
        most_shared: 64 << 10,
        shared: 64 << 10,
        threads: 1024,
        blocks: 16,
    };
    /// `sm_80`, Ampere: it multiplies more kinds of matrices, and copies asynchronously.
    pub const AMPERE: Self = Self {
        capability: (8, 0),
        most_shared: 163 << 10,
        shared: 164 << 10,
        threads: 2048,
        blocks: 32,
    };

    /// Returns the processor with a name such as `sm_75`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sm_75" => Some(Self::TURING),
            "sm_80" => Some(Self::AMPERE),
            _ => None,
        }
    }

    /// Returns its compute capability as one number, for instance 75.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.capability.0 * 10 + self.capability.1
    }
}

/// A device and its primary context.
#[derive(Debug, Default)]
pub struct Device {
    /// Whether it was lost.
    pub lost: bool,
    /// The primary context, once created. Its handle never changes.
    pub primary: Option<usize>,
    /// How often the primary context is retained.
    pub retained: usize,
    /// The flags of the primary context.
    pub flags: u32,
    /// The default pool.
    pub default_pool: usize,
    /// The current pool, which `cuMemAllocAsync` uses.
    pub pool: usize,
    /// The memory of graphs.
    pub graphs: Usage,
}

/// Converts a device number to an index.
///
/// # Errors
///
/// `INVALID_DEVICE`.
pub fn index(config: &Config, device: i32) -> Outcome<usize> {
    usize::try_from(device)
        .ok()
        .filter(|index| *index < config.devices)
        .ok_or(Status::ERROR_INVALID_DEVICE)
}

/// Returns the UUID of a device: the same in every run, different for each device.
#[must_use]
pub fn uuid(device: usize) -> [u8; 16] {
    let mut uuid = *b"gpulend-sim-\0\0\0\0";
    // Version 8, variant 1: the layout that RFC 9562 reserves for custom use.
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid[15] = u8::try_from(device + 1).unwrap_or(u8::MAX);
    uuid
}

/// Returns the PCI bus id of a device as `domain:bus:device.function`.
#[must_use]
pub fn pci_bus_id(device: usize) -> String {
    format!("0000:{:02X}:00.0", device + 1)
}

/// Returns an attribute of a device, by CUDA's number.
///
/// # Errors
///
/// `INVALID_VALUE` for an unknown attribute.
pub fn attribute(processor: Processor, number: i32, device: usize) -> Outcome<i32> {
    let count = |limit: u32| i32::try_from(limit).unwrap_or(i32::MAX);
    if !(1..=148).contains(&number) {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    Ok(match number {
        1..=3 => 1024,     // threads of a block, its first two axes
        4 => 64,           // third axis of a block
        5 => i32::MAX,     // first axis of a grid
        6 | 7 => 65_535,   // other axes of a grid
        8 => 49_152,       // shared memory of a block
        9 => 65_536,       // constant memory
        10 => 32,          // warp
        11 => i32::MAX,    // largest pitch
        12 | 82 => 65_536, // registers of a block, of a multiprocessor
        13 => 1_000_000,   // clock, kHz
        14 | 21..=30 | 42..=49 | 51..=74 | 77 => texture::limit(number),
        15 | 19 | 31 | 41 => 1, // overlap, mapped host memory, concurrent kernels, unified addressing
        16 => 4,                // multiprocessors
        33 => i32::try_from(device + 1).unwrap_or(0), // PCI bus
        36 => 1_000_000,        // memory clock, kHz
        37 => 64,               // width of the memory bus, bits
        38 => 1 << 20,          // L2 cache
        39 => count(processor.threads),
        40 => 2, // copy engines
        75 => processor.capability.0,
        76 => processor.capability.1,
        78 | 79 | 80 | 83 => 1, // priorities, L1 caches, managed memory
        81 => count(processor.shared),
        87 => 32,                      // single to double precision
        89..=91 => 1, // managed memory from both sides, preemption, registered pointers
        92 | 93 | 94 | 122 | 123 => 1, // waits and writes of streams
        95 => 1,      // cooperative launches
        97 => count(processor.most_shared),
        99 => 1,        // registering host memory
        102 | 103 => 1, // mapping memory by itself, sharing it by descriptors
        106 => count(processor.blocks),
        115 | 119 => 1,  // pools, sharing them by descriptors
        125 => 1,        // events of several processes
        126 => 1,        // domains of memory order
        129 => 1,        // unified function pointers
        144 => 1,        // pools of host memory
        131 | 134 => -1, // NUMA nodes: none
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_differ_in_uuid_and_bus() {
        assert_ne!(uuid(0), uuid(1));
        assert_ne!(pci_bus_id(0), pci_bus_id(1));
        assert_eq!(pci_bus_id(7), "0000:08:00.0");
    }
}
