//! Attributes of addresses.

use std::ffi::c_void;

use super::pointer::{Address, In, Out};
use super::{Call, entry};
use crate::machine::allocate::Passport;
use crate::machine::memory::Kind;
use crate::status::{Outcome, Status};

const CONTEXT: i32 = 1;
const MEMORY_TYPE: i32 = 2;
const DEVICE_POINTER: i32 = 3;
const HOST_POINTER: i32 = 4;
const SYNC_MEMOPS: i32 = 6;
const BUFFER_ID: i32 = 7;
const IS_MANAGED: i32 = 8;
const DEVICE_ORDINAL: i32 = 9;
const IS_LEGACY_CUDA_IPC_CAPABLE: i32 = 10;
const RANGE_START_ADDR: i32 = 11;
const RANGE_SIZE: i32 = 12;
const MAPPED: i32 = 13;
const ALLOWED_HANDLE_TYPES: i32 = 14;
const IS_GPU_DIRECT_RDMA_CAPABLE: i32 = 15;
const ACCESS_FLAGS: i32 = 16;
const MEMPOOL_HANDLE: i32 = 17;
const MAPPING_SIZE: i32 = 18;
const MAPPING_BASE_ADDR: i32 = 19;
const MEMORY_BLOCK_ID: i32 = 20;
const IS_HW_DECOMPRESS_CAPABLE: i32 = 21;

/// `CU_DEVICE_INVALID`: the device of memory without one.
const NO_DEVICE: i32 = -2;
/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// A value with the width of its attribute.
#[derive(Clone, Copy, Debug)]
enum Value {
    Word(u32),
    Long(u64),
}

impl Value {
    fn put(self, place: Address) {
        match self {
            Self::Word(value) => place.as_out().offer(value),
            Self::Long(value) => place.as_out().offer(value),
        }
    }
}

fn long(number: usize) -> Value {
    Value::Long(number as u64)
}

/// Returns an attribute of a known address.
fn attribute(passport: &Passport, address: usize, number: i32) -> Outcome<Value> {
    let pool = match passport.kind {
        Kind::Imported { pool } => pool,
        kind => kind.pool().unwrap_or(0),
    };
    Ok(match number {
        CONTEXT => long(if pool == 0 { passport.context } else { 0 }),
        MEMORY_TYPE => Value::Word(if passport.kind.is_device() || passport.kind.is_managed() {
            DEVICE
        } else {
            HOST
        }),
        DEVICE_POINTER => long(address),
        HOST_POINTER => long(if passport.kind.is_device() { 0 } else { address }),
        SYNC_MEMOPS => Value::Word(u32::from(passport.sync_memops || passport.kind.is_managed())),
        BUFFER_ID | MEMORY_BLOCK_ID => Value::Long(passport.buffer_id),
        IS_MANAGED => Value::Word(u32::from(passport.kind.is_managed())),
        DEVICE_ORDINAL => Value::Word(u32::try_from(passport.device).unwrap_or(u32::MAX)),
        RANGE_START_ADDR => long(passport.span.0),
        RANGE_SIZE => long(passport.span.1),
        MAPPED => Value::Word(1),
        ACCESS_FLAGS => Value::Word(u32::from(passport.access)),
        MEMPOOL_HANDLE => long(pool),
        MAPPING_BASE_ADDR => long(passport.mapping().0),
        MAPPING_SIZE => long(passport.mapping().1),
        ALLOWED_HANDLE_TYPES => Value::Long(u64::from(passport.handle_types)),
        IS_LEGACY_CUDA_IPC_CAPABLE => Value::Word(u32::from(passport.kind == Kind::Device)),
        IS_GPU_DIRECT_RDMA_CAPABLE | IS_HW_DECOMPRESS_CAPABLE => Value::Word(0),
        _ => return Err(Status::ERROR_INVALID_VALUE),
    })
}

/// Returns an attribute of an unknown address. Some attributes have no value for one.
fn unknown(address: usize, number: i32) -> Outcome<Option<Value>> {
    Ok(match number {
        HOST_POINTER => Some(long(address)),
        DEVICE_ORDINAL => Some(Value::Word(NO_DEVICE.cast_unsigned())),
        RANGE_START_ADDR | RANGE_SIZE => None,
        CONTEXT | DEVICE_POINTER | BUFFER_ID | ALLOWED_HANDLE_TYPES | MEMPOOL_HANDLE
        | MAPPING_SIZE | MAPPING_BASE_ADDR | MEMORY_BLOCK_ID => Some(Value::Long(0)),
        MEMORY_TYPE
        | SYNC_MEMOPS
        | IS_MANAGED
        | IS_LEGACY_CUDA_IPC_CAPABLE
        | MAPPED
        | IS_GPU_DIRECT_RDMA_CAPABLE
        | ACCESS_FLAGS
        | IS_HW_DECOMPRESS_CAPABLE => Some(Value::Word(0)),
        _ => return Err(Status::ERROR_INVALID_VALUE),
    })
}

impl Call {
    fn passport(self, address: usize) -> Outcome<Option<Passport>> {
        Ok(self.machine()?.lock().passport(address))
    }
}

entry! {
    /// Returns one attribute of a known address.
    fn cuPointerGetAttribute(data: Address, number: i32, address: usize) |call| {
        let passport = call.passport(address)?.ok_or(Status::ERROR_INVALID_VALUE)?;
        if data.number() == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if number == DEVICE_POINTER {
            call.context()?;
        }
        attribute(&passport, address, number)?.put(data);
        if number == HOST_POINTER && passport.kind.is_device() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        Ok(())
    }
}

entry! {
    /// Returns several attributes of any address. An unknown address is not an error.
    fn cuPointerGetAttributes(count: u32, numbers: In<i32>, data: In<*mut c_void>, address: usize) |call| {
        let passport = call.passport(address)?;
        if count == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        for index in 0..count as usize {
            // SAFETY: (1): the array has `count` elements.
            let number = unsafe { numbers.at(index) }?;
            // SAFETY: (1): the array has `count` elements.
            let place = Address(unsafe { data.at(index) }?);
            let value = match &passport {
                Some(passport) => Some(attribute(passport, address, number)?),
                None => unknown(address, number)?,
            };
            if place.number() == 0 {
                return Err(Status::ERROR_INVALID_VALUE);
            }
            if let Some(value) = value {
                value.put(place);
            }
        }
        Ok(())
    }
}

entry! {
    /// Sets `SYNC_MEMOPS`: whether synchronous copies complete before they return.
    fn cuPointerSetAttribute(value: Out<u32>, number: i32, address: usize) |call| {
        let machine = call.machine()?;
        if number != SYNC_MEMOPS {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        machine.set_sync_memops(&call.caller(), address, value.take()? != 0)
    }
}
