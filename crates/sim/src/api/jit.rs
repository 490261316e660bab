//! The supported options of loading and linking: the logs for messages. The others are for a compiler to
//! machine code, and are ignored.
#![forbid(unsafe_code)]

use std::ffi::c_char;

use super::pointer::{Address, In, Out};
use super::process::machine;
use crate::machine::image::Refusal;
use crate::status::{Outcome, Status};

/// `CU_JIT_INFO_LOG_BUFFER` and the others that follow it.
const INFO: i32 = 3;
const INFO_BYTES: i32 = 4;
const ERROR: i32 = 5;
const ERROR_BYTES: i32 = 6;
/// `CU_JIT_NUM_OPTIONS` may grow; much larger numbers are not options.
const OPTIONS: i32 = 64;

/// The log for one kind of message: a buffer, its size, and the address for the length of the text; 0 for none.
#[derive(Clone, Copy, Debug, Default)]
struct Sink {
    buffer: usize,
    bytes: usize,
    told: usize,
}

impl Sink {
    fn write(self, text: &str) {
        if self.buffer == 0 || self.bytes == 0 {
            return;
        }
        let bytes = i32::try_from(self.bytes).unwrap_or(i32::MAX);
        // The buffer is there and has room, so that this does not fail.
        let _ = Address::at(self.buffer).as_out::<c_char>().put_text(text, bytes);
        if self.told != 0 {
            Address::at(self.told).as_out::<usize>().offer(text.len().min(self.bytes - 1));
        }
    }
}

/// Where messages go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Log {
    info: Sink,
    error: Sink,
}

impl Log {
    /// Reads options and their values, which are pointers or numbers in their place.
    pub(super) fn read(count: u32, options: In<i32>, values: Out<usize>) -> Outcome<Self> {
        let mut log = Self::default();
        for (index, option) in options.list(count as usize)?.into_iter().enumerate() {
            let place = values.element(index);
            let value = place.take()?;
            // Numbers are given as 32 bits; the rest of the pointer may be anything.
            let number = value & 0xFFFF_FFFF;
            match option {
                INFO => log.info.buffer = value,
                INFO_BYTES => (log.info.bytes, log.info.told) = (number, place.number()),
                ERROR => log.error.buffer = value,
                ERROR_BYTES => (log.error.bytes, log.error.told) = (number, place.number()),
                0..OPTIONS => {}
                _ => return Err(Status::ERROR_INVALID_VALUE),
            }
        }
        Ok(log)
    }

    /// Tells what came of it: why something was refused goes to the buffer for errors, or the only one there is, or stderr.
    pub(super) fn tell<T>(self, outcome: Result<T, Refusal>) -> Outcome<T> {
        let unheard = self.error.buffer == 0 && self.info.buffer == 0;
        if let (Err(refusal), true, Some(machine)) = (&outcome, unheard, machine()) {
            machine.lock().explain(refusal);
        }
        let message = outcome.as_ref().map_or_else(|refusal| refusal.message.as_str(), |_| "");
        self.error.write(message);
        self.info.write(if self.error.buffer == 0 { message } else { "" });
        outcome.map_err(|refusal| refusal.status)
    }

    /// Returns it as numbers, for the machine to keep.
    pub(super) fn to_numbers(self) -> Vec<usize> {
        [self.info, self.error]
            .iter()
            .flat_map(|sink| [sink.buffer, sink.bytes, sink.told])
            .collect()
    }

    /// Returns what [`Log::to_numbers`] gave.
    pub(super) fn from_numbers(numbers: &[usize]) -> Self {
        let sink = |first: usize| {
            let at = |index: usize| numbers.get(first + index).copied().unwrap_or(0);
            Sink { buffer: at(0), bytes: at(1), told: at(2) }
        };
        Self { info: sink(0), error: sink(3) }
    }
}
