//! The frame of a launch: the bytes of all arguments, on the caller's stack unless there are very many.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::mem;

use smallvec::SmallVec;

use crate::signature::Parameter;

/// What almost all launches have room in; no more, because all of it is cleared for each.
const INLINE_WORDS: usize = 16;
/// So many arguments are pointed to from the stack.
const INLINE_POINTERS: usize = 24;

/// Room for very many arguments, and for pointers to them.
type Spare = (Vec<u128>, Vec<*mut c_void>);

thread_local! {
    /// What the last launch with so many left for the next.
    static SPARE: Cell<Spare> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// Where each argument of a kernel begins in a frame, in words of sixteen bytes.
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

    /// The word in which each argument begins.
    #[inline]
    pub(super) fn starts(&self) -> &[u32] {
        &self.starts
    }
}

/// Bytes of arguments, each at a multiple of sixteen, which suits every type: the driver copies them from there.
pub(super) struct Frame {
    inline: [u128; INLINE_WORDS],
    /// All words, where they are more.
    many: Vec<u128>,
    pointers: SmallVec<[*mut c_void; INLINE_POINTERS]>,
}

impl Frame {
    /// Room for the arguments of a kernel.
    #[inline(always)]
    pub(super) fn of(places: &Places) -> Self {
        if places.words > INLINE_WORDS {
            return Self::large(places);
        }
        Self { inline: [0; INLINE_WORDS], many: Vec::new(), pointers: SmallVec::new() }
    }

    #[cold]
    fn large(places: &Places) -> Self {
        let (mut many, pointers) = SPARE.try_with(Cell::take).unwrap_or_default();
        many.clear();
        many.resize(places.words, 0);
        Self { inline: [0; INLINE_WORDS], many, pointers: SmallVec::from_vec(pointers) }
    }

    /// A pointer to each argument.
    #[inline]
    pub(super) fn pointers(&mut self, places: &Places) -> *const *mut c_void {
        let words = self.words().as_mut_ptr();
        let pointer = |start: &u32| words.wrapping_add(*start as usize).cast();
        self.pointers.clear();
        self.pointers.extend(places.starts().iter().map(pointer));
        self.pointers.as_ptr()
    }

    /// Writes an argument of up to sixteen bytes, the low ones of a word.
    #[inline(always)]
    pub(super) fn set(&mut self, start: u32, word: u128) {
        self.words()[start as usize] = word;
    }

    /// Writes an argument of any length.
    pub(super) fn set_bytes(&mut self, start: u32, bytes: &[u8]) {
        for (place, chunk) in self.words()[start as usize..].iter_mut().zip(bytes.chunks(16)) {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            *place = u128::from_le_bytes(word);
        }
    }

    /// All words.
    #[inline(always)]
    pub(super) fn words(&mut self) -> &mut [u128] {
        if self.many.is_empty() { &mut self.inline } else { &mut self.many }
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        if !self.many.is_empty() {
            let pointers = mem::take(&mut self.pointers);
            let pointers = if pointers.spilled() { pointers.into_vec() } else { Vec::new() };
            // Where the thread ends there is no next launch.
            let _ = SPARE.try_with(|spare| spare.set((mem::take(&mut self.many), pointers)));
        }
    }
}
