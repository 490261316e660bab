//! JIT options. Only the log buffers are supported. The others are for a compiler to machine code, and are
//! ignored.
#![forbid(unsafe_code)]

use std::ffi::c_char;

use super::pointer::{Address, In, Out};
use super::process::machine;
use crate::machine::image::Refusal;
use crate::status::{Outcome, Status};

/// `CU_JIT_INFO_LOG_BUFFER` and the options that follow it.
const INFO: i32 = 3;
const INFO_BYTES: i32 = 4;
const ERROR: i32 = 5;
const ERROR_BYTES: i32 = 6;
/// `CU_JIT_NUM_OPTIONS` may grow; much larger numbers are not options.
const OPTIONS: i32 = 64;

/// The log for one kind of message: a buffer, its size, and the address for the length of the text. 0 if not
/// given.
#[derive(Clone, Copy, Debug, Default)]
struct Sink {
    buffer: usize,
    bytes: usize,
    length_at: usize,
}

impl Sink {
    fn write(self, text: &str) {
        if self.buffer == 0 || self.bytes == 0 {
            return;
        }
        let bytes = i32::try_from(self.bytes).unwrap_or(i32::MAX);
        // The buffer exists and has room, so this does not fail.
        let _ = Address::at(self.buffer).as_out::<c_char>().put_text(text, bytes);
        if self.length_at != 0 {
            Address::at(self.length_at).as_out::<usize>().offer(text.len().min(self.bytes - 1));
        }
    }
}

/// The logs for messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Log {
    info: Sink,
    error: Sink,
}

impl Log {
    /// Reads options and their values: pointers, or numbers in place of pointers.
    pub(super) fn read(count: u32, options: In<i32>, values: Out<usize>) -> Outcome<Self> {
        let mut log = Self::default();
        for (index, option) in options.list(count as usize)?.into_iter().enumerate() {
            let place = values.element(index);
            let value = place.take()?;
            // Numbers have 32 bits; the rest of the pointer is undefined.
            let number = value & 0xFFFF_FFFF;
            match option {
                INFO => log.info.buffer = value,
                INFO_BYTES => (log.info.bytes, log.info.length_at) = (number, place.number()),
                ERROR => log.error.buffer = value,
                ERROR_BYTES => (log.error.bytes, log.error.length_at) = (number, place.number()),
                0..OPTIONS => {}
                _ => return Err(Status::ERROR_INVALID_VALUE),
            }
        }
        Ok(log)
    }

    /// Writes the reason of a refusal to the error log, else to the info log, else to stderr. Returns the
    /// outcome's status.
    pub(super) fn deliver<T>(self, outcome: Result<T, Refusal>) -> Outcome<T> {
        let no_buffer = self.error.buffer == 0 && self.info.buffer == 0;
        if let (Err(refusal), true, Some(machine)) = (&outcome, no_buffer, machine()) {
            machine.lock().explain(refusal);
        }
        let message = outcome.as_ref().map_or_else(|refusal| refusal.message.as_str(), |_| "");
        self.error.write(message);
        self.info.write(if self.error.buffer == 0 { message } else { "" });
        outcome.map_err(|refusal| refusal.status)
    }

    /// Returns it as numbers, for the machine to store.
    pub(super) fn to_numbers(self) -> Vec<usize> {
        [self.info, self.error]
            .iter()
            .flat_map(|sink| [sink.buffer, sink.bytes, sink.length_at])
            .collect()
    }

    /// Restores it from [`Log::to_numbers`].
    pub(super) fn from_numbers(numbers: &[usize]) -> Self {
        let sink = |first: usize| {
            let at = |index: usize| numbers.get(first + index).copied().unwrap_or(0);
            Sink { buffer: at(0), bytes: at(1), length_at: at(2) }
        };
        Self { info: sink(0), error: sink(3) }
    }
}
