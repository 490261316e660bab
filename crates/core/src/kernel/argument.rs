//! Arguments: what a caller has, checked against what a kernel wants, as the bytes that it gets.
#![forbid(unsafe_code)]

use crate::device::{Device, DeviceKind};
use crate::driver::driver;
use crate::dtype::Dtype;
use crate::error::hint::Fit;
use crate::error::{Error, Number, Place, SignatureError};
use crate::import::raw::ViewRef;
use crate::kernel::elements::{
    bfloat, compact_elements, element_bytes, half, infinite, is_element, unfit, wide,
};
use crate::layout::Measure;
use crate::lease::Lease;
use crate::ledger::Name;
use crate::signature::{Parameter, Scalar, Signature, Type};

/// What keeps the memory of an array that no lease keeps, and in what order with other work.
#[derive(Clone, Copy, Debug)]
pub enum Keep {
    /// Its framework frees it in the order of the launch's own stream, on which its bytes are made too.
    InOrder,
    /// It is a CPU framework's: a stand-in for an array of a GPU, taken by the simulated one, which is waited for.
    Host,
}

/// One argument as its caller has it.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A null pointer.
    Null,
    /// A lease: waited for by event, and held until the kernel is done.
    Lease(&'a Lease),
    /// An array that is not leased.
    Array {
        /// Where it is and how it is laid out.
        view: ViewRef<'a>,
        /// What keeps it.
        keep: Keep,
        /// Of what type it is for its caller, for messages.
        what: Name,
    },
    /// A whole number.
    Integer(i128),
    /// A whole number that 128 bits do not hold, as the nearest number.
    Huge(f64),
    /// A number, with its bytes if its type has so many.
    Float(f64, Option<u8>),
    /// A truth.
    Bool(bool),
    /// A complex number.
    Complex(f64, f64),
    /// The bytes of a struct.
    Bytes(&'a [u8]),
    /// Something else, in words: an error that says where.
    Other(&'a str),
}

impl Argument<'_> {
    /// In words, for messages.
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

/// What a launch is told besides its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether arrays are compared with the types of the parameters.
    pub check: bool,
    /// Whether arrays may have gaps or another order.
    pub strided: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { check: true, strided: false }
    }
}

/// What a kernel gets for an argument.
pub(super) enum Given<'a> {
    /// Up to sixteen bytes, the low ones.
    Word(u128),
    /// Bytes of a struct.
    Bytes(&'a [u8]),
}

/// For whom arguments are checked.
pub(super) struct Checker<'a> {
    pub(super) signature: &'a Signature,
    pub(super) device: Device,
    pub(super) options: Options,
}

impl Checker<'_> {
    /// Takes any array that suits, and tells whether the kernel may write behind it.
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
        // What is not known to be const may be written.
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

    /// Takes any argument that is no array, as the bytes that the kernel gets.
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
            // Of plain numbers nobody needs to give the bytes, and those of a bool must be 0 or 1.
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
                    // Its sign is enough to say that it does not fit.
                    Argument::Huge(value) if *value < 0.0 => i128::MIN,
                    Argument::Huge(_) => i128::MAX,
                    _ => return Err(self.value(position, argument, Fit::Integer)),
                };
                let (bits, signed) = match scalar {
                    Scalar::Int { bits, signed } => (bits, signed),
                    // On the host's side of CUDA plain char has a sign.
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

    /// An argument for a parameter of which only the size is known.
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

    /// Whether an array is where the kernel can reach it: asked of every array.
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

    /// Whether an array suits a pointer parameter.
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

    /// Whether an array has no gaps, unless the kernel counts with strides.
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

    /// The bits of a whole number, if it fits.
    #[inline]
    fn integer(&self, position: usize, value: i128, bits: u8, signed: bool) -> Result<u64, Error> {
        let span = 1_i128 << bits.min(64);
        let (low, high) = match (bits, signed) {
            // Those that fit are written whole, and do not come here.
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
