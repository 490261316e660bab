//! Import of `__array_interface__`, `__cuda_array_interface__` and buffers: descriptions of memory.
//!
//! None of them contains an owner; the reader must keep the object that
//! provided it.

use crate::device::{Device, DeviceKind};
use crate::driver::present;
use crate::dtype::Dtype;
use crate::error::{AddressError, Error, ProtocolError};
use crate::import::no_driver;
use crate::import::raw::{Checked, Claim};
use crate::layout::Layout;
use crate::stream::{Ready, Stream};
use crate::view::View;

/// The protocol of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// `__array_interface__`: host memory.
    Array,
    /// `__cuda_array_interface__`: device memory.
    Cuda,
}

impl Interface {
    /// The attribute's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Array => "__array_interface__",
            Self::Cuda => "__cuda_array_interface__",
        }
    }
}

/// The fields of the dict, unchecked.
#[derive(Clone, Debug)]
pub struct Description {
    /// The protocol.
    pub interface: Interface,
    /// `version`.
    pub version: i64,
    /// `typestr`.
    pub typestr: Box<str>,
    /// `shape`.
    pub shape: Vec<i64>,
    /// `strides`, in bytes; none for a compact array.
    pub strides: Option<Vec<i64>>,
    /// `data`: address and whether it is read-only.
    pub data: (u64, bool),
    /// Whether there is a `mask`.
    pub masked: bool,
    /// `stream`, from version 3 of the CUDA interface on.
    pub stream: Option<i64>,
}

impl Description {
    /// Checks the description and makes a view of it; with `check`, also that the memory exists.
    ///
    /// # Errors
    ///
    /// If a field has an impossible value, or the memory does not exist, or is not where the protocol requires it.
    pub fn verify(&self, check: bool) -> Result<Checked, Error> {
        let protocol = self.interface.name();
        let field = |field, problem: String| {
            Error::from(ProtocolError::Field { protocol, field, problem: problem.into() })
        };
        let known = match self.interface {
            Interface::Array => 3..=3,
            Interface::Cuda => 0..=3,
        };
        if !known.contains(&self.version) {
            let (low, high) = known.into_inner();
            let problem = format!("is {}; versions {low} to {high} are understood", self.version);
            return Err(field("version", problem));
        }
        if self.masked {
            return Err(ProtocolError::Mask { protocol }.into());
        }
        if let Some(stream @ ..=0) = self.stream {
            let problem = format!(
                "is {stream}, which is not a stream; 1 is the legacy default stream, 2 the per-thread one"
            );
            return Err(field("stream", problem));
        }
        let dtype: Dtype = self.typestr.parse()?;
        let layout = match &self.strides {
            Some(strides) => Layout::from_byte_strides(&self.shape, strides, dtype)?,
            None => Layout::compact(&self.shape, dtype)?,
        };
        let (address, readonly) = self.data;
        let (shape, strides) = (&self.shape, Some(layout.strides()));
        let device = Some(Device::CPU);
        let claim = Claim { address, shape, strides, dtype, device, readonly, check };
        if self.interface == Interface::Array {
            return claim.verify();
        }
        // Before the driver is asked: for such a description, this is the more useful error.
        let (low, bytes) = View::host(address, dtype, layout.clone(), readonly)?.extent();
        let Some(driver) = present()? else {
            return Err(no_driver("cuda").into());
        };
        if bytes == 0 {
            let device = Some(Device::new(DeviceKind::Cuda, 0));
            return Claim { device, check: false, ..claim }.verify();
        }
        if driver.buffer_id(low)?.is_none() {
            let (device, nearest) = ("any device".into(), driver.nearest(low));
            return Err(AddressError::Unknown { address: low, device, nearest }.into());
        }
        // Only the driver knows the device.
        Claim { device: None, ..claim }.verify()
    }

    /// When the bytes are valid: after the work of the named stream. A producer before version 3
    /// cannot name one, and is assumed to use the legacy stream. From version 3 on, none means now, unless
    /// the producer is `forgetful`: it names none although it works on the legacy stream.
    ///
    /// # Safety
    ///
    /// The named stream exists, and belongs to the primary context of `device`.
    #[must_use]
    pub unsafe fn ready(&self, device: u8, forgetful: bool) -> Ready {
        if self.stream.is_none() && self.version >= 3 && !forgetful {
            return Ready::Now;
        }
        let number = self.stream.and_then(|stream| usize::try_from(stream).ok()).unwrap_or(0);
        // SAFETY: the contract.
        Ready::On(unsafe { Stream::named(device, number, None) })
    }
}

/// A filled `Py_buffer`, as plain numbers.
#[derive(Clone, Debug)]
pub struct Buffer<'a> {
    /// The address of the first element.
    pub address: u64,
    /// The `struct` format; none means bytes.
    pub format: Option<&'a str>,
    /// Bytes of an element.
    pub itemsize: usize,
    /// Extents.
    pub shape: &'a [i64],
    /// Strides in bytes; none for a compact array.
    pub strides: Option<&'a [i64]>,
    /// Whether writing is forbidden.
    pub readonly: bool,
}

impl Buffer<'_> {
    /// Checks the description and makes a view of it.
    ///
    /// # Errors
    ///
    /// If the format is not an element type, or shape and strides are not an array's.
    pub fn view(&self) -> Result<View, Error> {
        let dtype = Dtype::from_buffer_format(self.format.unwrap_or("B"), self.itemsize)?;
        let layout = match self.strides {
            Some(strides) => Layout::from_byte_strides(self.shape, strides, dtype)?,
            None => Layout::compact(self.shape, dtype)?,
        };
        View::host(self.address, dtype, layout, self.readonly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LayoutError;

    fn description() -> Description {
        Description {
            interface: Interface::Cuda,
            version: 3,
            typestr: "<f4".into(),
            shape: vec![2, 3],
            strides: None,
            data: (0x1000, false),
            masked: false,
            stream: Some(1),
        }
    }

    #[test]
    fn a_right_description_is_refused_only_for_its_device() {
        let refused = description().verify(true).map_err(|error| error.code());
        assert_eq!(refused.map(|_| ()), Err(902));
        let memory = [0.0_f32; 6];
        let data = (memory.as_ptr().addr() as u64, false);
        let host = Description { interface: Interface::Array, data, ..description() };
        assert_eq!(host.verify(true).map(|checked| checked.view().nbytes()), Ok(24));
    }

    #[test]
    fn each_lie_is_refused_by_name() {
        let code = |description: Description| {
            description.verify(true).map(|_| ()).map_err(|error| error.code())
        };
        let field = Err(203);
        assert_eq!(code(Description { version: 99, ..description() }), field);
        assert_eq!(code(Description { version: -1, ..description() }), field);
        assert_eq!(code(Description { stream: Some(0), ..description() }), field);
        assert_eq!(code(Description { masked: true, ..description() }), Err(204));
        assert_eq!(code(Description { typestr: ">f4".into(), ..description() }), Err(109));
        assert_eq!(code(Description { typestr: "|O8".into(), ..description() }), Err(108));
        assert_eq!(code(Description { shape: vec![-1], ..description() }), Err(103));
        assert_eq!(code(Description { strides: Some(vec![4]), ..description() }), Err(101));
        assert_eq!(code(Description { strides: Some(vec![9, 3]), ..description() }), Err(105));
        assert_eq!(code(Description { data: (0, false), ..description() }), Err(401));
        assert_eq!(code(Description { data: (0x1001, false), ..description() }), Err(402));
    }

    #[test]
    fn a_buffer_without_a_format_is_bytes() {
        let buffer = Buffer {
            address: 0x1000,
            format: None,
            itemsize: 1,
            shape: &[4],
            strides: Some(&[-1]),
            readonly: true,
        };
        let view = buffer.view().unwrap();
        assert!(view.readonly());
        assert_eq!((view.dtype(), view.extent()), (Dtype::UINT8, (0xffd, 4)));
        let doubled = Buffer { itemsize: 2, ..buffer };
        assert!(matches!(doubled.view(), Err(Error::Layout(LayoutError::UnknownName { .. }))));
    }
}
