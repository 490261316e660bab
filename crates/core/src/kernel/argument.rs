//! Arguments: what the caller passes, checked against the parameter and converted to bytes.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::device::{Device, DeviceKind};
use crate::driver::driver;
use crate::dtype::Dtype;
use crate::error::hint::Fit;
use crate::error::{Error, Number, Place, SignatureError};
use crate::fork::ProcessLock;
use crate::import::raw::ViewRef;
use crate::kernel::Kernel;
use crate::kernel::elements::{
    bfloat, compact_elements, element_bytes, half, infinite, is_element, unfit, wide,
};
use crate::layout::Measure;
use crate::lease::Lease;
use crate::ledger::Name;
use crate::signature::{Parameter, Scalar, Signature, Type};

/// How the memory of an array without a lease is kept alive, and how it is ordered.
#[derive(Clone, Copy, Debug)]
pub enum Keep {
    /// Its framework writes and frees it in the order of the launch's stream.
    InOrder,
    /// Memory of a CPU framework, standing in for a GPU array on the simulated GPU. The caller waits for the
    /// kernel.
    Host,
}

/// Types whose CPU arrays stand in for GPU arrays.
static STAND_INS: ProcessLock<BTreeSet<Box<str>>> = ProcessLock::new(BTreeSet::new());

/// Makes CPU arrays of this Python type stand in for GPU arrays: a binding calls it for frameworks that also have
/// GPU arrays. The simulated GPU accepts them. A real GPU accepts only its own memory.
///
/// ```
/// use gpulend::kernel::{add_stand_in, stands_in};
///
/// add_stand_in("torch.Tensor");
/// assert!(stands_in("torch.Tensor"));
/// assert!(!stands_in("numpy.ndarray"));
/// ```
pub fn add_stand_in(who: &str) {
    STAND_INS.lock().insert(who.into());
}

/// Whether CPU arrays of this Python type, or leases of this origin, stand in for GPU arrays: see [`add_stand_in`].
#[must_use]
pub fn stands_in(who: &str) -> bool {
    STAND_INS.lock().contains(who)
}

/// One argument as the caller passes it.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A null pointer.
    Null,
    /// A lease: ordered by events, and held until the kernel is done.
    Lease(&'a Lease),
    /// An array that is not leased.
    Array {
        /// Its address and layout.
        view: ViewRef<'a>,
        /// How it is kept alive.
        keep: Keep,
        /// The caller's type name, for messages.
        what: Name,
    },
    /// An integer.
    Integer(i128),
    /// An integer of more than 128 bits, as the nearest float.
    Huge(f64),
    /// A floating-point number, with the size of its type in bytes if known.
    Float(f64, Option<u8>),
    /// A boolean.
    Bool(bool),
    /// A complex number.
    Complex(f64, f64),
    /// The bytes of a struct.
    Bytes(&'a [u8]),
    /// Anything else, described for the error message.
    Other(&'a str),
}

impl Argument<'_> {
    /// A description for messages.
    fn words(&self) -> String {
        match self {
            Self::Null => "a null pointer".to_owned(),
            Self::Lease(_) => "a lease".to_owned(),
            Self::Array { what, .. } => format!("an array ({})", what.text()),
            Self::Huge(_) => "an int of more than 127 bits".to_owned(),
            Self::Integer(value) => format!("the int {value}"),
            Self::Float(value, _) => format!("the float {value:?}"),
            Self::Bool(value) => format!("the bool {value}"),
            Self::Complex(re, im) => format!("the complex number {re}{im:+}i"),
            Self::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Self::Other(words) => (*words).to_owned(),
        }
    }
}

/// How the arguments of a launch are checked.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether element types are compared with the parameter types.
    pub check: bool,
    /// Whether arrays may be non-contiguous.
    pub strided: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { check: true, strided: false }
    }
}

/// The converted argument.
pub(super) enum Given<'a> {
    /// Up to sixteen bytes, the low ones.
    Word(u128),
    /// Bytes of a struct.
    Bytes(&'a [u8]),
}

impl Kernel {
    /// Checks an array as a launch does, without a launch: for code that plans one, and has a description of
    /// the array but perhaps no memory yet.
    ///
    /// # Errors
    ///
    /// If it does not suit the parameter at this position, or there is no such parameter.
    pub fn check_array(
        &self,
        position: usize,
        view: &ViewRef<'_>,
        keep: Keep,
        what: Name,
    ) -> Result<(), Error> {
        let signature = self.signature();
        if position >= signature.parameters.len() {
            return Err(self.miscounted(position + 1));
        }
        let (device, options) = (self.module().device(), Options::default());
        let checker = Checker { signature, device, options };
        checker.take_array(position, view, matches!(keep, Keep::Host), what).map(|_| ())
    }
}

/// Checks arguments for one launch.
pub(super) struct Checker<'a> {
    pub(super) signature: &'a Signature,
    pub(super) device: Device,
    pub(super) options: Options,
}

impl Checker<'_> {
    /// Checks an array. Returns whether the kernel may write to it.
    pub(super) fn take_array(
        &self,
        position: usize,
        view: &ViewRef<'_>,
        host: bool,
        what: Name,
    ) -> Result<bool, Error> {
        let parameter = &self.signature.parameters[position];
        let wanted = match &parameter.kind {
            Some(Type::Pointer { to, constant }) => Some((&**to, *constant)),
            None if parameter.size == 8 => None,
            _ => return Err(self.no_value(position, view, what)),
        };
        self.check_place(position, view, host, what)?;
        if self.options.check {
            self.check_array(position, view, wanted)?;
        }
        // A pointer not known to be const may be written through.
        Ok(wanted.is_none_or(|(_, constant)| !constant))
    }

    #[cold]
    fn no_value(&self, position: usize, view: &ViewRef<'_>, what: Name) -> Error {
        let (place, found) = (self.place(position), describe(what, view.dtype));
        if self.signature.parameters[position].kind.is_none() {
            let size = self.signature.parameters[position].size;
            return SignatureError::Untyped { place, found, size }.into();
        }
        SignatureError::NoValue { place, found }.into()
    }

    /// Converts an argument that is not an array.
    pub(super) fn take<'b>(
        &self,
        position: usize,
        argument: &Argument<'b>,
    ) -> Result<Given<'b>, Error> {
        let parameter = &self.signature.parameters[position];
        match &parameter.kind {
            Some(kind) => self.take_typed(position, kind, argument),
            None => self.take_untyped(position, parameter, argument),
        }
    }

    fn take_typed<'b>(
        &self,
        position: usize,
        kind: &Type,
        argument: &Argument<'b>,
    ) -> Result<Given<'b>, Error> {
        let refuse = |fit| self.value(position, argument, fit);
        let structure = || {
            let size = self.signature.parameters[position].size;
            refuse(Fit::Struct { size })
        };
        match (kind, argument) {
            (Type::Pointer { .. }, Argument::Null) => Ok(Given::Word(0)),
            (Type::Pointer { .. }, Argument::Bytes(_)) => {
                let (place, found) = (self.place(position), argument.words().into());
                Err(SignatureError::Host { place, found }.into())
            }
            (Type::Pointer { .. }, other) => {
                let (place, found) = (self.place(position), other.words().into());
                Err(SignatureError::NoArray { place, found }.into())
            }
            (_, Argument::Null) => Err(refuse(Fit::NotNull)),
            // Raw bytes are not accepted for plain numbers, nor for a bool, whose bytes must be 0 or 1.
            (
                Type::Scalar(
                    Scalar::Bool
                    | Scalar::Char
                    | Scalar::Int { .. }
                    | Scalar::Float32
                    | Scalar::Float64,
                ),
                Argument::Bytes(_),
            ) => Err(refuse(Fit::Number)),
            (_, Argument::Bytes(bytes)) => self.bytes(position, bytes),
            (Type::Scalar(scalar), other) => self.scalar(position, *scalar, other).map(Given::Word),
            (Type::Complex(element) | Type::Vector { element, lanes: 2 }, other)
                if matches!(element, Scalar::Float32 | Scalar::Float64 | Scalar::Float16) =>
            {
                let (re, im) = match other {
                    Argument::Complex(re, im) => (*re, *im),
                    Argument::Float(re, _) => (*re, 0.0),
                    Argument::Huge(re) if re.is_finite() => (*re, 0.0),
                    Argument::Integer(re) => (wide(*re), 0.0),
                    _ => return Err(refuse(Fit::Complex)),
                };
                let part = |value| self.scalar(position, *element, &Argument::Float(value, None));
                Ok(Given::Word(part(re)? | part(im)? << (8 * element_bytes(*element))))
            }
            _ => Err(structure()),
        }
    }

    /// The bits of a number.
    fn scalar(
        &self,
        position: usize,
        scalar: Scalar,
        argument: &Argument<'_>,
    ) -> Result<u128, Error> {
        let number = || match argument {
            Argument::Float(value, _) => Ok(*value),
            Argument::Huge(value) if value.is_finite() => Ok(*value),
            Argument::Integer(value) => Ok(wide(*value)),
            Argument::Bool(value) => Ok(f64::from(u8::from(*value))),
            _ => Err(self.value(position, argument, Fit::Number)),
        };
        Ok(match scalar {
            Scalar::Bool => {
                let value = match argument {
                    Argument::Bool(value) => *value,
                    Argument::Integer(0) => false,
                    Argument::Integer(1) => true,
                    _ => return Err(self.value(position, argument, Fit::Bool)),
                };
                value.into()
            }
            Scalar::Char | Scalar::Int { .. } => {
                let value = match argument {
                    Argument::Integer(value) => *value,
                    Argument::Bool(value) => i128::from(*value),
                    // Its sign suffices to show that it does not fit.
                    Argument::Huge(value) if *value < 0.0 => i128::MIN,
                    Argument::Huge(_) => i128::MAX,
                    _ => return Err(self.value(position, argument, Fit::Integer)),
                };
                let (bits, signed) = match scalar {
                    Scalar::Int { bits, signed } => (bits, signed),
                    // Plain `char` is signed on CUDA's host platforms.
                    _ => (8, true),
                };
                if bits == 128 && (signed || value >= 0) && !matches!(argument, Argument::Huge(_)) {
                    value.cast_unsigned()
                } else {
                    self.integer(position, value, bits, signed)?.into()
                }
            }
            Scalar::Float64 => number()?.to_bits().into(),
            Scalar::Float32 => self.narrow(position, number()?)?.to_bits().into(),
            Scalar::Float16 | Scalar::BFloat16 => {
                let value = number()?;
                let bits = if scalar == Scalar::Float16 { half(value) } else { bfloat(value) };
                if value.is_finite() && bits & 0x7FFF == infinite(scalar) {
                    let (place, value) = (self.place(position), Number(value));
                    return Err(SignatureError::Overflow { place, value }.into());
                }
                bits.into()
            }
            Scalar::Float8E4M3 | Scalar::Float8E5M2 => {
                return Err(self.value(position, argument, Fit::Byte));
            }
        })
    }

    /// Converts an argument for a parameter of known size and unknown type.
    fn take_untyped<'b>(
        &self,
        position: usize,
        parameter: &Parameter,
        argument: &Argument<'b>,
    ) -> Result<Given<'b>, Error> {
        let size = parameter.size;
        Ok(Given::Word(match argument {
            Argument::Null if size == 8 => 0,
            Argument::Integer(value) if matches!(size, 1 | 2 | 4 | 8) => {
                let bits = u8::try_from(size * 8).unwrap_or(64);
                self.integer(position, *value, bits, *value < 0)?.into()
            }
            Argument::Bool(value) if size == 1 => (*value).into(),
            Argument::Float(value, Some(4)) if size == 4 => {
                self.narrow(position, *value)?.to_bits().into()
            }
            Argument::Float(value, Some(8)) if size == 8 => value.to_bits().into(),
            Argument::Float(value, Some(2)) if size == 2 => half(*value).into(),
            Argument::Bytes(bytes) => return self.bytes(position, bytes),
            _ => {
                let (place, found) = (self.place(position), argument.words().into());
                return Err(SignatureError::Untyped { place, found, size }.into());
            }
        }))
    }

    fn bytes<'b>(&self, position: usize, bytes: &'b [u8]) -> Result<Given<'b>, Error> {
        let size = self.signature.parameters[position].size;
        if bytes.len() != size as usize {
            let (place, found) = (self.place(position), bytes.len());
            return Err(SignatureError::Size { place, found, size }.into());
        }
        Ok(Given::Bytes(bytes))
    }

    /// Checks that the kernel can access the array's memory. Done for every array.
    #[inline]
    fn check_place(
        &self,
        position: usize,
        view: &ViewRef<'_>,
        host: bool,
        what: Name,
    ) -> Result<(), Error> {
        let device = view.place.0;
        if device == self.device {
            return Ok(());
        }
        let place = || self.place(position);
        let found = || describe(what, view.dtype);
        Err(match (device.kind(), host) {
            (DeviceKind::Cpu, true) if driver()?.is_simulated() => return Ok(()),
            (DeviceKind::Cpu, true) => SignatureError::HostTensor {
                place: place(),
                found: found(),
                device: self.device.to_string().into(),
            },
            (DeviceKind::Cpu, _) => SignatureError::Host { place: place(), found: found() },
            _ => SignatureError::Device {
                place: place(),
                found: device.to_string().into(),
                wanted: self.device.to_string().into(),
            },
        }
        .into())
    }

    /// Checks an array against a pointer parameter.
    #[inline]
    fn check_array(
        &self,
        position: usize,
        view: &ViewRef<'_>,
        wanted: Option<(&Type, bool)>,
    ) -> Result<(), Error> {
        let Some((to, constant)) = wanted else {
            if view.readonly {
                return Err(SignatureError::ReadOnlyUntyped { place: self.place(position) }.into());
            }
            return self.check_gaps(position, view);
        };
        if view.readonly && !constant {
            return Err(SignatureError::ReadOnly { place: self.place(position) }.into());
        }
        if !is_element(to, view.dtype) {
            return Err(unfit(self.place(position), to, constant, view.dtype).into());
        }
        if let Type::Vector { .. } | Type::Complex(_) = to {
            self.check_vectors(position, view, to)?;
        }
        self.check_gaps(position, view)
    }

    /// Checks that an array is contiguous, unless the launch allows strides.
    fn check_gaps(&self, position: usize, view: &ViewRef<'_>) -> Result<(), Error> {
        if self.options.strided || compact_elements(view.shape, view.strides).is_some() {
            return Ok(());
        }
        let (shape, strides) =
            (format!("{:?}", view.shape).into(), format!("{:?}", view.strides).into());
        Err(SignatureError::Strided { place: self.place(position), shape, strides }.into())
    }

    fn check_vectors(&self, position: usize, view: &ViewRef<'_>, to: &Type) -> Result<(), Error> {
        let (align, size) = (to.align().unwrap_or(1), to.size().unwrap_or(1));
        if !view.address.is_multiple_of(align.into()) {
            let (place, address) = (self.place(position), view.address);
            return Err(SignatureError::Misaligned { place, address, align }.into());
        }
        let measure = Measure::take(view.shape, view.strides, view.dtype)?;
        let elements = measure.size.unsigned_abs();
        let bytes = elements.saturating_mul(view.dtype.itemsize().into());
        if !bytes.is_multiple_of(size.into()) {
            let place = self.place(position);
            return Err(SignatureError::Ragged { place, bytes, size }.into());
        }
        Ok(())
    }

    /// The bits of an integer, if it fits.
    #[inline]
    fn integer(&self, position: usize, value: i128, bits: u8, signed: bool) -> Result<u64, Error> {
        let span = 1_i128 << bits.min(64);
        let (low, high) = match (bits, signed) {
            // Integers that fit 128 bits are written directly and never get here.
            (128, true) => (i128::MIN, i128::MAX),
            (128, false) => (0, i128::MAX),
            (_, true) => (-span / 2, span / 2 - 1),
            (_, false) => (0, span - 1),
        };
        if bits <= 64 && (low..=high).contains(&value) {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the low bits are wanted"
            )]
            return Ok(value as u64);
        }
        let (place, value) = (self.place(position), value.to_string().into());
        Err(SignatureError::Range { place, value, low, high }.into())
    }

    #[inline]
    fn narrow(&self, position: usize, value: f64) -> Result<f32, Error> {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "rounding is what a float parameter means"
        )]
        let narrow = value as f32;
        if narrow.is_infinite() && value.is_finite() {
            let (place, value) = (self.place(position), Number(value));
            return Err(SignatureError::Overflow { place, value }.into());
        }
        Ok(narrow)
    }

    #[cold]
    pub(super) fn place(&self, position: usize) -> Box<Place> {
        let parameter = &self.signature.parameters[position];
        let wanted = match &parameter.kind {
            Some(kind) => kind.to_string(),
            None => format!("{} bytes", parameter.size),
        };
        Box::new(Place {
            kernel: self.signature.name.clone(),
            position: position + 1,
            name: parameter.name.clone(),
            wanted: wanted.into(),
        })
    }

    #[cold]
    fn value(&self, position: usize, argument: &Argument<'_>, fit: Fit) -> Error {
        let (place, found) = (self.place(position), argument.words().into());
        SignatureError::Value { place, found, fit }.into()
    }
}

fn describe(what: Name, dtype: Dtype) -> Box<str> {
    format!("{} of {}", what.text(), dtype.name()).into()
}
