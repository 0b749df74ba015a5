//! Malformed files, as an attacker or a failing disk produces them: small mutations of valid files, identical on every
//! machine.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use peak_alloc::PeakAlloc;

/// Bytes that a reader may allocate in addition to those per input byte.
const ROOM: usize = 64 << 20;
/// Bytes that a reader may allocate per input byte.
const ROOM_A_BYTE: usize = 512;
/// Time limit of a reader. Generous, because a busy machine is slower than an idle one.
const LONGEST: Duration = Duration::from_secs(20);
/// Maximum bytes of a mutated file, unless the original is larger.
const LARGEST: usize = 64 << 10;
/// Maximum bytes of an error message, in addition to those per input byte. A reader may list all defects of a file.
const LONGEST_ERROR: usize = 64 << 10;

/// Environment variable that overrides the number of mutated files of each test.
const FILES: &str = "MANTISSA_HOSTILE_FILES";

/// Implausible lengths and sizes.
const EXTREMES: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x00ff_ffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Tokens with a meaning in some file format.
const TOKENS: [&[u8]; 32] = [
    b"\"",
    b"'",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[",
    b"]]",
    b",",
    b":",
    b"=",
    b"+",
    b"#",
    b"\t",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x8e",
    "é".as_bytes(),
    b"null",
    b"true",
    b"-1",
    b"0",
    b"NaN",
    b"1e308",
    b"4294967296",
    b"18446744073709551615",
    b"<|endoftext|>",
    b"../../../outside",
    b"/ABSOLUTE",
];

/// Mutator of files with a seeded random generator.
#[derive(Debug, Clone)]
pub struct Hostile {
    state: u64,
}

impl Hostile {
    /// Creates the mutator of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number of SplitMix64 (Steele et al., 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % (n as u64).max(1)) as usize
    }

    /// Returns a random element.
    fn of<T: Copy>(&mut self, things: &[T]) -> T {
        things[self.below(things.len())]
    }

    /// Returns a random range within `length` bytes, mostly a short one.
    fn stretch(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length);
        let longest = self.of(&[4, 16, 64, length]);
        let to = from + self.below(longest.min(length - from) + 1);
        (from, to)
    }

    /// Returns a copy of a file with one or more mutations; parts of `other` may be inserted.
    pub fn changed(&mut self, file: &[u8], other: &[u8]) -> Vec<u8> {
        let largest = file.len().max(LARGEST);
        let mut bytes = file.to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, other);
            bytes.truncate(largest);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let (from, to) = self.stretch(bytes.len());
        match self.below(10) {
            // Flip a bit or replace a byte.
            0 if from < bytes.len() => bytes[from] ^= 1 << self.below(8),
            1 if from < bytes.len() => bytes[from] = self.next() as u8,
            // Truncate the file or remove a part.
            2 => bytes.truncate(from),
            3 => drop(bytes.drain(from..to)),
            // Repeat a part.
            4 => {
                let times = self.of(&[1, 2, 100]);
                let again = bytes[from..to].repeat(times);
                drop(bytes.splice(to..to, again));
            }
            // Insert a part of another file, or replace a part by it.
            5 => {
                let (first, last) = self.stretch(other.len());
                let to = self.of(&[from, to]);
                drop(bytes.splice(from..to, other[first..last].iter().copied()));
            }
            // Overwrite a binary length.
            6 => {
                let width = self.of(&[1, 2, 4, 8]);
                let near = bytes.len() as u64;
                let number = match self.below(3) {
                    0 => near.wrapping_add(self.next() % 9).wrapping_sub(4),
                    _ => self.of(&EXTREMES),
                };
                let number = number.to_le_bytes();
                // Most lengths are in headers.
                let at = self.of(&[from, from % 64]);
                for (to, byte) in bytes.iter_mut().skip(at).zip(&number[..width]) {
                    *to = *byte;
                }
            }
            // Replace a number in text.
            7 => {
                let is_digit = |byte: &u8| byte.is_ascii_digit();
                let first = bytes[from..].iter().position(is_digit).map(|at| from + at);
                if let Some(first) = first {
                    let digits = bytes[first..].iter().take_while(|byte| is_digit(byte)).count();
                    let mut number = self.of(&EXTREMES).to_string();
                    if self.below(8) == 0 {
                        number.insert_str(0, self.of(&["-", "1e", "0.", "00"]));
                    }
                    drop(bytes.splice(first..first + digits, number.into_bytes()));
                }
            }
            // Insert a token, or replace a part by it.
            8 => {
                let token = self.of(&TOKENS);
                let to = self.of(&[from, to]);
                drop(bytes.splice(from..to, token.iter().copied()));
            }
            // Swap two parts.
            _ => {
                let rest = bytes.split_off(from);
                bytes.splice(0..0, rest);
            }
        }
    }
}

/// Lock that serializes measurements of memory.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the peak of allocated bytes during some work, relative to the start. Returns 0 if [`PeakAlloc`] is not the allocator.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    work();
    PeakAlloc.peak_usage().saturating_sub(before)
}

/// Checks a reader on `files` mutated files and on the valid ones that they are made from. The reader must return a result or a
/// one-paragraph error, in time and with bounded memory. Memory is checked only if [`PeakAlloc`] is the allocator.
///
/// # Panics
/// If a valid file is rejected, or the reader panics, takes too long, allocates too much, or returns an empty or overlong
/// error.
pub fn assert_robust(name: &str, valid: &[Vec<u8>], files: u64, read: impl Fn(&[u8]) -> Result<(), String>) {
    assert_robust_within(ROOM, name, valid, files, read);
}

/// Checks a reader like [`assert_robust`], but allows `room` bytes of memory in addition to those per input byte.
///
/// # Panics
/// Under the same conditions as [`assert_robust`].
pub fn assert_robust_within(
    room: usize,
    name: &str,
    valid: &[Vec<u8>],
    files: u64,
    read: impl Fn(&[u8]) -> Result<(), String>,
) {
    for (number, file) in valid.iter().enumerate() {
        if let Err(error) = read(file) {
            panic!("{name}: the valid file {number} is rejected: {error}");
        }
    }
    let files = std::env::var(FILES).map_or(files, |files| files.parse().expect(FILES));
    for number in 0..files {
        let mut hostile = Hostile::new(number);
        let [file, other] = [(); 2].map(|()| hostile.below(valid.len()));
        let bytes = hostile.changed(&valid[file], &valid[other]);
        let context = || {
            let head = bytes[..bytes.len().min(400)].escape_ascii();
            format!("{name}, file {number} of {} bytes, `{head}`", bytes.len())
        };
        let begun = Instant::now();
        let mut result = None;
        let taken = peak_of(|| result = catch_unwind(AssertUnwindSafe(|| read(&bytes))).ok());
        let took = begun.elapsed();
        let result = result.unwrap_or_else(|| panic!("{}: the reader panicked", context()));
        assert!(took < LONGEST, "{}: {took:?}", context());
        let most = room + ROOM_A_BYTE * bytes.len();
        assert!(taken <= most, "{}: {taken} bytes were allocated", context());
        if let Err(error) = result {
            let is_paragraph = !error.trim().is_empty() && !error.contains("\n\n");
            assert!(
                is_paragraph && error.len() <= LONGEST_ERROR + ROOM_A_BYTE * bytes.len(),
                "{}: an error of {} bytes, `{}`",
                context(),
                error.len(),
                error.escape_debug()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_changes_and_another_seed_others() {
        let changed = |seed| Hostile::new(seed).changed(b"a file of 31 bytes, some of them", b"other");
        assert_eq!(changed(7), changed(7));
        let all: std::collections::BTreeSet<Vec<u8>> = (0..100).map(changed).collect();
        assert!(all.len() > 80, "{} of 100 differ", all.len());
        assert!((0..1000).all(|seed| Hostile::new(seed).changed(b"", b"").len() <= LARGEST));
    }

    #[test]
    #[should_panic(expected = "the reader panicked")]
    fn a_reader_that_trusts_a_length_is_found_out() {
        let read = |bytes: &[u8]| {
            let length = usize::from(*bytes.first().ok_or("it is empty")?);
            drop(bytes[1..=length].to_vec());
            Ok(())
        };
        assert_robust("lengths", &[b"\x03abc".to_vec()], 1000, read);
    }

    #[test]
    #[should_panic(expected = "an error of 0 bytes")]
    fn an_error_that_says_nothing_is_found_out() {
        let read = |bytes: &[u8]| match bytes {
            b"valid" => Ok(()),
            _ => Err(String::new()),
        };
        assert_robust("nothing", &[b"valid".to_vec()], 100, read);
    }
}
