//! The frame of a launch: the bytes of all arguments, on the caller's stack unless there are very many.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

/// What almost all launches have room in.
const INLINE_WORDS: usize = 24;
const INLINE_ARGUMENTS: usize = 24;

/// Bytes of arguments, each at a multiple of sixteen, which suits every type: the driver copies them from there.
pub(super) struct Frame {
    words: SmallVec<[u128; INLINE_WORDS]>,
    /// The word in which each begins.
    starts: SmallVec<[u32; INLINE_ARGUMENTS]>,
}

impl Frame {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self { words: SmallVec::new(), starts: SmallVec::new() }
    }

    /// Begins an argument.
    #[inline]
    fn start(&mut self) {
        // A launch with 4 billion words of arguments is refused by every driver.
        self.starts.push(u32::try_from(self.words.len()).unwrap_or(u32::MAX));
    }

    /// Adds an argument of up to eight bytes, the low ones of a word.
    #[inline]
    pub(super) fn push_word(&mut self, word: u64) {
        self.start();
        self.words.push(word.into());
    }

    /// Adds an argument of any length.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.start();
        for chunk in bytes.chunks(16) {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            self.words.push(u128::from_le_bytes(word));
        }
    }

    /// The first bytes of each word, one behind the other.
    pub(super) fn packed(&self, bytes: usize) -> SmallVec<[u8; 16]> {
        self.words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(bytes)).collect()
    }

    /// How many arguments there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The word in which each argument begins.
    #[inline]
    pub(super) fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// The bytes.
    #[inline]
    pub(super) fn words(&mut self) -> &mut [u128] {
        &mut self.words
    }
}
