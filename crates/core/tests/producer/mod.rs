//! A producer of DLPack tensors that can lie in any field, and that counts its releases.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpulend::abi::dlpack::{
    self, DataType, DeviceCode, Header, ManagedTensor, ManagedTensorVersioned, Tensor, Version,
};
use gpulend::{Dtype, MOST_AXES};

/// Bytes behind every tensor that points to memory of its own.
pub(crate) const ROOM: usize = 1 << 9;

#[repr(align(128))]
pub(crate) struct Memory(pub(crate) [u8; ROOM]);

/// What the producer keeps until its deleter runs: the struct first, then what it points to.
#[repr(C)]
pub(crate) struct Produced<T> {
    pub(crate) managed: T,
    pub(crate) shape: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) deleted: Arc<AtomicUsize>,
}

/// Frees the tensor and counts: freed memory is what a second call, or a late read, would meet.
pub(crate) unsafe extern "C" fn delete<T>(managed: *mut T) {
    // SAFETY: the pointer is that of a whole `Produced`, leaked by `leak`, and comes once.
    let produced = unsafe { Box::from_raw(managed.cast::<Produced<T>>()) };
    produced.deleted.fetch_add(1, Ordering::SeqCst);
}

/// The fields of one tensor, as far from right as they like.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) version: Version,
    pub(crate) flags: u64,
    pub(crate) data: Data,
    pub(crate) byte_offset: u64,
    pub(crate) device: (i32, i32),
    pub(crate) ndim: i32,
    pub(crate) dtype: (u8, u8, u16),
    pub(crate) shape: Option<Vec<i64>>,
    pub(crate) strides: Option<Vec<i64>>,
    pub(crate) deleter: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Data {
    Null,
    Own,
    Elsewhere(usize),
}

impl Fields {
    /// A tensor that nobody would refuse: 2 × 3 float32 in memory of its own.
    pub(crate) fn right() -> Self {
        Self {
            version: dlpack::VERSION,
            flags: 0,
            data: Data::Own,
            byte_offset: 0,
            device: (1, 0),
            ndim: 2,
            dtype: (2, 32, 1),
            shape: Some(vec![2, 3]),
            strides: Some(vec![3, 1]),
            deleter: true,
        }
    }

    pub(crate) fn tensor(&self, produced: &mut (Vec<i64>, Vec<i64>, Vec<Memory>)) -> Tensor {
        let (shape, strides, memory) = produced;
        Tensor {
            data: match self.data {
                Data::Null => ptr::null_mut(),
                Data::Own => memory.as_mut_ptr().cast(),
                Data::Elsewhere(address) => ptr::without_provenance_mut(address),
            },
            device: dlpack::Device { code: DeviceCode(self.device.0), index: self.device.1 },
            ndim: self.ndim,
            dtype: DataType { code: self.dtype.0, bits: self.dtype.1, lanes: self.dtype.2 },
            shape: self.shape.as_ref().map_or(ptr::null_mut(), |_| shape.as_mut_ptr()),
            strides: self.strides.as_ref().map_or(ptr::null_mut(), |_| strides.as_mut_ptr()),
            byte_offset: self.byte_offset,
        }
    }

    /// Shape and strides, long enough for any rank that is read, and memory.
    pub(crate) fn parts(&self) -> (Vec<i64>, Vec<i64>, Vec<Memory>) {
        let long = |numbers: &Option<Vec<i64>>| {
            let mut numbers = numbers.clone().unwrap_or_default();
            numbers.resize(MOST_AXES, 1);
            numbers
        };
        let mut memory = vec![Memory([0; ROOM])];
        for (byte, count) in memory[0].0.iter_mut().zip((0..=u8::MAX).cycle()) {
            *byte = count;
        }
        (long(&self.shape), long(&self.strides), memory)
    }

    pub(crate) fn leak<T>(&self, managed: impl FnOnce(Tensor) -> T) -> Leaked<T> {
        let mut parts = self.parts();
        let managed = managed(self.tensor(&mut parts));
        let (shape, strides, memory) = parts;
        let deleted = Arc::new(AtomicUsize::new(0));
        let produced = Produced { managed, shape, strides, memory, deleted: Arc::clone(&deleted) };
        Leaked { managed: Box::into_raw(Box::new(produced)).cast(), deleted, deleter: self.deleter }
    }

    pub(crate) fn versioned(&self) -> Leaked<ManagedTensorVersioned> {
        let deleter: unsafe extern "C" fn(_) = delete::<ManagedTensorVersioned>;
        let header = Header {
            version: self.version,
            manager_ctx: ptr::null_mut(),
            deleter: self.deleter.then_some(deleter),
            flags: self.flags,
        };
        self.leak(|tensor| ManagedTensorVersioned { header, tensor })
    }

    pub(crate) fn legacy(&self) -> Leaked<ManagedTensor> {
        let deleter: unsafe extern "C" fn(_) = delete::<ManagedTensor>;
        let deleter = self.deleter.then_some(deleter);
        self.leak(|tensor| ManagedTensor { tensor, manager_ctx: ptr::null_mut(), deleter })
    }

    /// Whether a careful reader can take the tensor, by wide sums.
    pub(crate) fn is_possible(&self, padded: bool, data: u64) -> bool {
        let (code, bits, lanes) = self.dtype;
        let known = Dtype::all().find(|dtype| (dtype.code(), dtype.bits()) == (code, bits));
        let Some(dtype) = known.map(|dtype| if padded { dtype.padded() } else { dtype }) else {
            return false;
        };
        let rank = usize::try_from(self.ndim).unwrap_or(usize::MAX);
        let there = matches!(self.device, (1 | 3, 0..=0xff)) && rank <= MOST_AXES && lanes == 1;
        if !there || (self.shape.is_none() && rank > 0) {
            return false;
        }
        let (shape, strides, _) = self.parts();
        let bits = i128::from(dtype.storage_bits());
        let fits = |sum: i128| (i128::from(i64::MIN)..=i128::from(i64::MAX)).contains(&sum);
        let (mut low, mut high, mut size, mut step) = (0_i128, bits, bits, 1_i128);
        for axis in (0..rank).rev() {
            let extent = i128::from(shape[axis]);
            let stride = if self.strides.is_some() { strides[axis].into() } else { step };
            step *= extent.max(1);
            size *= extent.max(1);
            if extent < 0 || !fits(size) || !fits(step) {
                return false;
            }
            let reach = (extent - 1) * stride * bits;
            low += reach.min(0);
            high += reach.max(0);
        }
        if data.checked_add(self.byte_offset).is_none() || shape[..rank].contains(&0) {
            return data.checked_add(self.byte_offset).is_some();
        }
        let address = i128::from(data) + i128::from(self.byte_offset);
        let ends = [address + low.div_euclid(8), address + (high + 7).div_euclid(8)];
        fits(low)
            && fits(high + 7)
            && address > 0
            && ends.iter().all(|end| *end >= 0 && fits(*end))
            && address % i128::from(dtype.alignment()) == 0
    }
}

/// A tensor on its way to us, and how often its deleter ran.
pub(crate) struct Leaked<T> {
    pub(crate) managed: *mut T,
    pub(crate) deleted: Arc<AtomicUsize>,
    pub(crate) deleter: bool,
}

impl<T> Leaked<T> {
    pub(crate) fn deleted(&self) -> usize {
        self.deleted.load(Ordering::SeqCst)
    }

    /// What the deleter's count must be in the end; frees what has none.
    pub(crate) fn assert_released_once(self) {
        assert_eq!(self.deleted(), usize::from(self.deleter));
        if !self.deleter {
            // SAFETY: nobody deletes a tensor without a deleter, and its lease is gone.
            unsafe { delete(self.managed) }
        }
    }
}
