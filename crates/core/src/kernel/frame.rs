//! The frame of a launch: the bytes of all arguments. It is on the caller's stack unless there are many.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::{mem, ptr};

use smallvec::SmallVec;

use crate::signature::Parameter;

/// Enough for almost all launches.
const INLINE_WORDS: usize = 16;

/// Buffers for many arguments and for the pointers to them.
type Spare = (Vec<u128>, Vec<*mut c_void>);

thread_local! {
    /// The buffers of this thread's last large launch, for reuse.
    static SPARE: Cell<Spare> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// The offset of each argument in a frame, in words of 16 bytes.
#[derive(Clone, Debug)]
pub(super) struct Places {
    starts: Box<[u32]>,
    words: usize,
}

impl Places {
    pub(super) fn of(parameters: &[Parameter]) -> Self {
        let mut words = 0;
        let starts = parameters.iter().map(|parameter| {
            let start = words;
            words += parameter.size.div_ceil(16).max(1);
            start
        });
        let starts = starts.collect();
        Self { starts, words: words as usize }
    }
}

/// The arguments' bytes, each argument aligned to 16, which suits every type. The driver copies them.
pub(super) struct Frame {
    words: SmallVec<[u128; INLINE_WORDS]>,
    /// A pointer to each argument. An argument takes at least one word.
    few: [*mut c_void; INLINE_WORDS],
    /// The same for frames too large for `few`.
    many: Vec<*mut c_void>,
}

impl Frame {
    /// An empty frame for a kernel's arguments.
    #[inline(always)]
    pub(super) fn of(places: &Places) -> Self {
        if places.words > INLINE_WORDS {
            return Self::large(places);
        }
        Self { words: SmallVec::new(), few: [ptr::null_mut(); INLINE_WORDS], many: Vec::new() }
    }

    #[cold]
    #[inline(never)]
    fn large(places: &Places) -> Self {
        let (mut words, many) = SPARE.try_with(Cell::take).unwrap_or_default();
        words.clear();
        words.reserve(places.words);
        Self { words: SmallVec::from_vec(words), few: [ptr::null_mut(); INLINE_WORDS], many }
    }

    /// A pointer to each argument.
    #[inline(always)]
    pub(super) fn pointers(&mut self, places: &Places) -> *const *mut c_void {
        // Pad with zeros, so that the driver cannot read past the end if arguments are missing.
        if self.words.len() < places.words {
            self.fill(places);
        }
        if self.words.spilled() {
            return self.many_pointers(places);
        }
        let words = self.words.as_mut_ptr();
        for (pointer, start) in self.few.iter_mut().zip(&places.starts) {
            *pointer = words.wrapping_add(*start as usize).cast();
        }
        self.few.as_ptr()
    }

    #[cold]
    #[inline(never)]
    fn many_pointers(&mut self, places: &Places) -> *const *mut c_void {
        let words = self.words.as_mut_ptr();
        let pointer = |start: &u32| words.wrapping_add(*start as usize).cast();
        self.many.clear();
        self.many.extend(places.starts.iter().map(pointer));
        self.many.as_ptr()
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, places: &Places) {
        self.words.resize(places.words, 0);
    }

    /// Adds an argument of up to 16 bytes: the low bytes of a word.
    #[inline(always)]
    pub(super) fn push(&mut self, word: u128) {
        self.words.push(word);
    }

    /// Adds an argument of any size.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(16) {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            self.words.push(u128::from_le_bytes(word));
        }
        if bytes.is_empty() {
            self.words.push(0);
        }
    }
}

impl Drop for Frame {
    #[inline(always)]
    fn drop(&mut self) {
        if self.words.spilled() {
            self.spare();
        }
    }
}

impl Frame {
    /// Keeps the buffers for this thread's next large launch.
    #[cold]
    #[inline(never)]
    fn spare(&mut self) {
        let words = mem::take(&mut self.words).into_vec();
        let many = mem::take(&mut self.many);
        // Fails only while the thread ends; then there is no next launch.
        let _ = SPARE.try_with(|spare| spare.set((words, many)));
    }
}
