//! The one table of error codes: number, name, exception class and meaning.
//!
//! The errors of the core, the refusals of the bindings, `docs/errors.md` and `gpulend.h` take their codes from here or
//! are checked against it. Append, never renumber: `tests/codes.txt` fails when a code disappears or changes its class.
#![forbid(unsafe_code)]

/// The kind of an error, by which Python chooses an exception class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Anything else.
    Error,
    /// Shape, strides or element type describe no tensor.
    Layout,
    /// An index is outside its axis.
    OutOfRange,
    /// An object or struct does not keep to its protocol.
    Protocol,
    /// Memory cannot be handed out as asked.
    Export,
    /// An address is not a live allocation, too short, misaligned or elsewhere.
    Address,
    /// The lease has ended.
    Released,
    /// The lease cannot end yet.
    StillLent,
    /// A kernel cannot be compiled.
    Compile,
    /// A kernel cannot be launched, or went wrong.
    Kernel,
    /// An argument does not suit a kernel.
    Signature,
    /// There is no such device here.
    NoDevice,
    /// A driver call failed.
    Driver,
    /// There is not enough memory.
    OutOfMemory,
    /// Bytes are not a ticket, or not one that its lender gave.
    Ticket,
    /// A ticket of another release.
    TicketVersion,
    /// A ticket can no longer be claimed.
    TicketExpired,
    /// The process that lent memory has ended.
    LenderGone,
    /// A ticket of another machine.
    WrongMachine,
    /// Memory of a device that the process does not see.
    DeviceNotVisible,
    /// Memory that other processes cannot open.
    NotShareable,
    /// Memory of another user.
    NotPermitted,
}

impl Class {
    /// The name of the exception class.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "Error",
            Self::Layout => "LayoutError",
            Self::OutOfRange => "OutOfRangeError",
            Self::Protocol => "ProtocolError",
            Self::Export => "ExportError",
            Self::Address => "AddressError",
            Self::Released => "ReleasedError",
            Self::StillLent => "StillLentError",
            Self::Compile => "CompileError",
            Self::Kernel => "KernelError",
            Self::Signature => "SignatureError",
            Self::NoDevice => "NoDeviceError",
            Self::Driver => "DriverError",
            Self::OutOfMemory => "OutOfMemoryError",
            Self::Ticket => "TicketError",
            Self::TicketVersion => "TicketVersionError",
            Self::TicketExpired => "TicketExpiredError",
            Self::LenderGone => "LenderGoneError",
            Self::WrongMachine => "WrongMachineError",
            Self::DeviceNotVisible => "DeviceNotVisibleError",
            Self::NotShareable => "NotShareableError",
            Self::NotPermitted => "NotPermittedError",
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The number, which never changes its meaning. The hundreds name the class.
    pub number: u32,
    /// The name, as the constant's; in C it follows `GPULEND_`.
    pub name: &'static str,
    /// The class.
    pub class: Class,
    /// What it means, in one line.
    pub meaning: &'static str,
}

macro_rules! table {
    ($($number:literal $name:ident $class:ident $meaning:literal)*) => {
        $(
            #[doc = $meaning]
            pub const $name: Code =
                Code { number: $number, name: stringify!($name), class: Class::$class, meaning: $meaning };
        )*
        /// All codes, by number.
        pub const ALL: &[Code] = &[$($name),*];
    };
}

// Of each hundred the numbers below 50 are the core's, those from 50 on Python's, those from 70 on C's.
table! {
    101 STRIDE_COUNT Layout "Shape and strides have different numbers of axes."
    102 TOO_MANY_AXES Layout "The array has more axes than any framework takes."
    103 NEGATIVE_EXTENT Layout "An extent is negative."
    104 SPAN_OVERFLOW Layout "The elements span more than 64 bits can address."
    105 BROKEN_STRIDE Layout "A byte stride is not a multiple of the element's size."
    106 UNKNOWN_ELEMENT_CODE Layout "DLPack has no such type code, or not with that many bits."
    107 VECTOR_ELEMENTS Layout "The elements are vectors."
    108 UNKNOWN_ELEMENT_NAME Layout "A name or typestr names no element type."
    109 BIG_ENDIAN Layout "The elements have the other byte order."
    110 INDEX_OUTSIDE OutOfRange "An index is outside its axis."
    111 TOO_MANY_INDICES OutOfRange "There are more indices than axes."
    112 ZERO_STEP Layout "A slice has step 0."
    113 INSIDE_BYTE Layout "A slice of packed elements begins inside a byte."
    114 RESHAPE_SIZE Layout "The new shape has another number of elements."
    115 RESHAPE_COPIES Layout "The strides allow no such view without a copy."
    116 VIEW_REFUSED Layout "The bits cannot be read as the other type."
    117 MISMATCH Layout "Source and destination of a copy differ in element type or shape."
    118 OVERLAP Layout "Elements of the destination overlap, or may."
    119 TWO_ELLIPSES Layout "An index has two ellipses."
    120 SCATTERED Layout "An array is in too many pieces to copy from or to a device."
    150 NOT_AN_ELEMENT Layout "A value is not an element of the type."
    151 NOT_FILLABLE Layout "Arrays of this element type cannot be filled."
    152 GENERIC_TYPE Layout "The types of the arguments of an element-wise kernel or a reduction disagree, or one follows from no argument."
    153 SHAPES_DISAGREE Layout "The shapes of the arguments of an element-wise kernel or a reduction disagree."
    154 NOTHING_TO_REDUCE Layout "A reduction without an identity has no elements."
    201 NULL_TENSOR Protocol "A producer handed over a null pointer instead of a tensor."
    202 DLPACK_VERSION Protocol "A producer speaks another major version of DLPack."
    203 BAD_FIELD Protocol "A field has an impossible value."
    204 MASKED Protocol "The array has a mask."
    205 HOST_STREAM Protocol "A stream was named for host memory, which has no streams."
    250 NO_PROTOCOL Protocol "The object speaks no protocol that gpulend knows."
    251 PRODUCER_RAISED Protocol "A producer's method raised; its exception is the cause."
    252 BAD_CAPSULE Protocol "A capsule was used before, has another name, or is not a capsule."
    253 BAD_ARGUMENT Protocol "An argument or a field cannot be read, or has an impossible value."
    254 NO_FRAMEWORK Protocol "gpulend knows no such framework."
    255 NOT_INSTALLED Protocol "The framework cannot be imported."
    256 NO_DLPACK_CODE Protocol "The NumPy elements have no DLPack type code."
    270 NO_HANDLE Protocol "C: a number that was never a handle."
    271 OTHER_KIND Protocol "C: a handle of something else."
    272 ENDED Protocol "C: a handle of something that was freed."
    273 TOO_MANY_HANDLES Protocol "C: there are as many handles as there can be."
    274 SECOND_COPY Protocol "C: another copy of gpulend was used first in this process. Importing it in Python raises an `ImportError` that says so."
    301 READ_ONLY Export "The memory is read-only, and the consumer could write it."
    302 WRITE_READ_ONLY Export "The destination is read-only."
    303 OTHER_DEVICE_WANTED Export "The consumer wants memory of another device."
    305 NO_ELEMENT_TYPE Export "The consumer or its protocol has no such element type."
    306 NEGATIVE_STRIDES Export "The consumer has no negative strides."
    350 MEANING_LOST Export "A plain array would lose what the array means."
    351 NOT_ZERO_COPY Export "The consumer copied."
    352 PACKED_ELEMENTS Export "The elements are packed, and the framework stores each in a byte of its own."
    353 NOT_NUMBERS Export "The elements are not numbers."
    354 OTHER_BYTE_ORDER Export "The elements have the other byte order."
    355 UNALIGNED_FOR_FRAMEWORK Export "The memory is not aligned as JAX or TensorFlow needs it."
    356 UNSUPPORTED_STRIDES Export "The framework does not have such strides, or not so many axes."
    357 NOT_KEPT Export "The consumer's array does not keep the memory that it was lent."
    401 NULL_ADDRESS Address "The address is null, and the shape has elements."
    402 MISALIGNED Address "The address is not aligned for the element type."
    403 ADDRESS_OVERFLOW Address "The elements run past an end of the address space."
    404 NOT_MAPPED Address "Nothing is mapped at the address."
    405 MAPPING_TOO_SHORT Address "The mapping ends before the last element."
    406 NOT_ALLOCATED Address "The address is in the simulated GPU's memory or in gpulend's pool, but in no allocation."
    407 UNKNOWN_ADDRESS Address "The driver does not know the address: it was never allocated on that device, or was freed."
    408 PAST_END Address "The elements are not all inside the allocation."
    409 OTHER_DEVICE Address "The memory belongs to another device."
    410 OTHER_CONTEXT Address "The memory belongs to a context that is not the primary one."
    411 GONE Address "The memory was freed since it was wrapped."
    450 NO_ADDRESS Address "A number cannot be an address."
    451 NO_PYCUDA_CONTEXT Address "PyCUDA has no context, or one of another device, where it would use the memory."
    500 RELEASED Released "The lease was released."
    600 STILL_LENT StillLent "The lease cannot be released while others hold what it handed out."
    701 NO_COMPILER Compile "No compiler for kernels was found."
    702 BAD_COMPILER Compile "The compiler that was asked for does not work."
    703 UNKNOWN_OPTION Compile "A compiler option is unknown or incomplete."
    704 SOURCE_MISTAKES Compile "The source has mistakes; `diagnostics` lists them."
    705 SOURCE_LAUNCHES Compile "The source launches a kernel itself."
    706 COMPILER_TOO_LONG Compile "The compiler was stopped because it took too long."
    707 COMPILER_CRASHED Compile "The compiler crashed."
    708 BAD_NAME Compile "A source, a header or a kernel cannot have this name."
    709 BAD_FOLDER Compile "The folder for temporary files cannot be used."
    710 INSTANCE_MISTAKES Compile "A template instance that was asked for cannot be compiled; `diagnostics` says why."
    711 NO_SUCH_INSTANCE Compile "A name that was asked for names no kernel."
    712 NO_NVRTC Compile "NVIDIA's compiler was asked for and cannot be loaded."
    713 NOT_AN_IMAGE Compile "The bytes are neither PTX nor a cubin nor a fatbin."
    714 ARCHITECTURE Compile "The compiler knows no target that the device could run."
    715 UNRESOLVED Compile "The source calls functions that clang has no code for on a real GPU."
    716 NVRTC_SIMULATED Compile "NVIDIA's compiler was asked for, and the device is simulated."
    720 NOT_LOADED Compile "The device does not take the compiled code; the message is the driver's."
    801 NO_KERNEL Kernel "The module has no kernel of that name."
    802 SEVERAL_KERNELS Kernel "Several kernels have that name: name one with its types."
    803 NO_VARIABLE Kernel "The module has no variable of that name."
    804 BAD_EXTENT Kernel "A grid or a block is empty, or longer along an axis than the device allows."
    805 TOO_MANY_THREADS Kernel "A block has more threads than the device or the kernel allows."
    806 TOO_MUCH_SHARED Kernel "A block asks for more shared memory than it may have."
    807 LAUNCH_REFUSED Kernel "The driver refused the launch; nothing was queued."
    808 SIZES_DISAGREE Kernel "The driver and the compiler give different sizes for a parameter."
    809 LAUNCH_CAPTURED Kernel "A launch must be waited for, and its stream is being captured."
    810 FAULT Kernel "A kernel went wrong on the simulated GPU: launch, line, block, thread and the nearest argument. The next launch works."
    811 CONTEXT_LOST Kernel "A kernel went wrong on a real GPU, first seen after the launch that is named. The device's context is lost."
    812 VARIABLE_SIZE Kernel "A variable's size in the module is not that of its type."
    820 ARGUMENT_COUNT Signature "There are too few or too many arguments."
    821 ELEMENT_TYPE Signature "The array's elements have another type than the pointer's."
    822 NOT_AN_ARRAY Signature "A pointer parameter got something else than an array, such as a bare address."
    823 NOT_A_VALUE Signature "A parameter that is a value got an array."
    824 HOST_MEMORY Signature "A pointer parameter got memory of the host."
    825 HOST_TENSOR Signature "A pointer parameter got a tensor of the host, and the GPU is real."
    826 READ_ONLY_ARGUMENT Signature "The array is read-only, and the kernel could write it."
    827 NOT_CONTIGUOUS Signature "The array is not contiguous, and strides were not allowed."
    828 VECTOR_MISALIGNED Signature "The array's address is not aligned for the parameter's vectors."
    829 VECTOR_CUT Signature "The array's size is not a multiple of the parameter's vectors."
    830 ARGUMENT_DEVICE Signature "The array is on another device than the kernel."
    831 INTEGER_RANGE Signature "The parameter cannot hold the integer."
    832 VALUE_KIND Signature "The value has another kind than the parameter."
    833 NUMBER_RANGE Signature "A finite number would become infinite."
    834 STRUCT_SIZE Signature "A struct has another size than the parameter."
    835 UNTYPED Signature "Only the size of the parameter is known, and the value does not say its own."
    836 LAUNCH_NUMBER Signature "A grid, a block, the shared memory or the number of elements is not an integer."
    837 STREAM_DEVICE Signature "The stream belongs to another device than the kernel."
    838 READ_ONLY_UNTYPED Signature "The array is read-only, and the image does not say whether the kernel writes it."
    850 OPERATION Signature "The description of an operation does not suit its kernel."
    851 OPERATION_USE Signature "An operation of torch or JAX is used in a way that its description does not allow."
    901 UNKNOWN_DEVICE_NAME NoDevice "A name is not that of a device."
    902 OUT_OF_REACH NoDevice "The memory is on a device that this process does not use."
    903 UNKNOWN_DEVICE_CODE NoDevice "gpulend does not know the DLPack device type."
    904 UNKNOWN_CHOICE NoDevice "`GPULEND_DEVICE` is not auto, cuda or simulated, or `GPULEND_POOL` not auto, on or off."
    905 NO_DRIVER NoDevice "A real driver was asked for, and none can be loaded."
    906 DRIVER_REFUSED NoDevice "A driver was loaded and does not start."
    907 INCOMPLETE_LIBRARY NoDevice "A library lacks a function that gpulend needs."
    908 NO_SIMULATOR NoDevice "The simulated GPU's files are not there."
    909 NO_DRIVER_AT_ALL NoDevice "Neither a driver nor the simulated GPU can be loaded."
    910 REAL_DRIVER_MAPPED NoDevice "The simulated GPU was asked for, and the process has a real driver mapped."
    911 ALREADY_CHOSEN NoDevice "`simulate` comes too late: another choice was made."
    912 SIMULATION_FORBIDDEN NoDevice "`simulate` was called, and `GPULEND_DEVICE=cuda` forbids it."
    913 SIMULATOR_EXPOSED NoDevice "A real driver was asked for, and the loader finds the simulated GPU."
    914 FORKED NoDevice "The process was forked after its parent had begun to use a GPU."
    915 NOT_SIMULATED NoDevice "A report or faults were asked for, and there is no simulated GPU."
    916 NO_SUCH_DEVICE NoDevice "There are fewer devices."
    1000 OUT_OF_MEMORY OutOfMemory "The host has not enough memory."
    1001 DRIVER_CALL Driver "A function of the driver returned an error."
    1002 BAD_SETTINGS Driver "The simulated GPU does not take the settings or rules."
    1003 CAPTURED Driver "The call would harm a capture."
    1004 KERNEL_SEEN Driver "A call saw what a kernel had done: Python and `gpulend::Error` report it as 810 or 811."
    1005 UNTIMED_EVENT Driver "The time between two events was asked for, and one was recorded without its time."
    1020 OUT_OF_DEVICE_MEMORY OutOfMemory "A device has not enough memory."
    1101 NOT_A_TICKET Ticket "The bytes are not a ticket."
    1102 FORGED_TICKET Ticket "The lender never gave such a ticket."
    1103 TICKET_VERSION TicketVersion "The ticket was made by a release of gpulend that writes other tickets."
    1104 TICKET_EXPIRED TicketExpired "The ticket's time is over, it was withdrawn, or all its claims were made."
    1105 LENDER_GONE LenderGone "The process that made the ticket has ended, or cannot be reached."
    1106 LENDER_LOST LenderGone "The process that lent the memory ended before it had written the bytes."
    1107 WRONG_MACHINE WrongMachine "The ticket was made on another machine, or before this one was started again."
    1108 DEVICE_NOT_VISIBLE DeviceNotVisible "The memory is on a device that this process does not see."
    1109 NOT_SHAREABLE NotShareable "Other processes cannot open the memory."
    1110 NOT_PERMITTED NotPermitted "The lender, or the folder of its socket, belongs to another user."
    1111 TOO_MANY_TICKETS Ticket "The lender has as many offers, claims or connections as it may have."
    1112 TICKET_SYSTEM Ticket "A call of the operating system failed that tickets need."
    2000 BUG Error "C: a bug of gpulend, caught before it reached the caller."
}
