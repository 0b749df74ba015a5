//! Malformed files, as an attacker or a failing disk produces them. They are small, seeded mutations of valid files and
//! identical on every machine.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use peak_alloc::PeakAlloc;

/// Number of bytes that a reader may allocate in addition to [`MEMORY_PER_BYTE`] for each input byte.
const BASE_MEMORY: usize = 64 << 20;
/// Number of bytes that a reader may allocate for each input byte.
const MEMORY_PER_BYTE: usize = 512;
/// Maximum duration of a reader. It is long, because the machine may be busy.
const MAX_DURATION: Duration = Duration::from_secs(20);
/// Maximum size of a mutated file in bytes. If the original file is larger, its size is the maximum.
const MAX_FILE_BYTES: usize = 64 << 10;
/// Maximum size of an error message in bytes, in addition to [`MEMORY_PER_BYTE`] for each input byte. A reader may list
/// all defects of a file.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Environment variable that overrides the number of mutated files of each test.
const FILES_VARIABLE: &str = "MANTISSA_HOSTILE_FILES";

/// Boundary values that replace lengths, sizes and numbers.
const BOUNDARY_VALUES: [u64; 14] = [
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

/// Mutator that changes files with a seeded random generator.
#[derive(Debug, Clone)]
pub struct Mutator {
    state: u64,
}

impl Mutator {
    /// Creates a mutator with a seed.
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
    fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns start and end of a random range within `length` bytes, mostly a short one.
    fn random_range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length);
        let max_length = self.choose(&[4, 16, 64, length]);
        let to = from + self.below(max_length.min(length - from) + 1);
        (from, to)
    }

    /// Returns a copy of a file with one or more mutations; parts of `other` may be inserted.
    pub fn mutate(&mut self, file: &[u8], other: &[u8]) -> Vec<u8> {
        let max_bytes = file.len().max(MAX_FILE_BYTES);
        let mut bytes = file.to_vec();
        for _ in 0..=self.below(4) {
            self.mutate_once(&mut bytes, other);
            bytes.truncate(max_bytes);
        }
        bytes
    }

    fn mutate_once(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let (from, to) = self.random_range(bytes.len());
        match self.below(10) {
            // Flip a bit or replace a byte.
            0 if from < bytes.len() => bytes[from] ^= 1 << self.below(8),
            1 if from < bytes.len() => bytes[from] = self.next() as u8,
            // Truncate the file or remove a part.
            2 => bytes.truncate(from),
            3 => drop(bytes.drain(from..to)),
            // Repeat a part.
            4 => {
                let times = self.choose(&[1, 2, 100]);
                let copies = bytes[from..to].repeat(times);
                drop(bytes.splice(to..to, copies));
            }
            // Insert a part of another file, or replace a part by it.
            5 => {
                let (first, last) = self.random_range(other.len());
                let to = self.choose(&[from, to]);
                drop(bytes.splice(from..to, other[first..last].iter().copied()));
            }
            // Overwrite a binary length.
            6 => {
                let width = self.choose(&[1, 2, 4, 8]);
                let length = bytes.len() as u64;
                let number = match self.below(3) {
                    0 => length.wrapping_add(self.next() % 9).wrapping_sub(4),
                    _ => self.choose(&BOUNDARY_VALUES),
                };
                let number = number.to_le_bytes();
                // Half of the writes start in the first 64 bytes, because most lengths are in headers.
                let at = self.choose(&[from, from % 64]);
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
                    let mut number = self.choose(&BOUNDARY_VALUES).to_string();
                    if self.below(8) == 0 {
                        number.insert_str(0, self.choose(&["-", "1e", "0.", "00"]));
                    }
                    drop(bytes.splice(first..first + digits, number.into_bytes()));
                }
            }
            // Insert a token, or replace a part by it.
            8 => {
                let token = self.choose(&TOKENS);
                let to = self.choose(&[from, to]);
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

/// Lock that serializes memory measurements, because the allocator counts the bytes of all threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the peak of allocated bytes while `work` runs, minus the bytes allocated before. Returns 0 if [`PeakAlloc`]
/// is not the allocator.
pub fn peak_allocation(work: impl FnOnce()) -> usize {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    work();
    PeakAlloc.peak_usage().saturating_sub(before)
}

/// Checks a reader with all valid files, which it must accept, and with `files` mutations of them. For each mutation,
/// the reader must succeed or return a one-paragraph error, within limits of time and memory. Memory is checked only if
/// [`PeakAlloc`] is the allocator.
///
/// # Panics
/// If a valid file is rejected, or the reader panics, takes too long, allocates too much, or returns an empty or overlong
/// error.
pub fn assert_robust(name: &str, valid: &[Vec<u8>], files: u64, read: impl Fn(&[u8]) -> Result<(), String>) {
    assert_robust_within(BASE_MEMORY, name, valid, files, read);
}

/// Checks a reader like [`assert_robust`], but allows `base_memory` bytes of memory in addition to those per input byte.
///
/// # Panics
/// Under the same conditions as [`assert_robust`].
pub fn assert_robust_within(
    base_memory: usize,
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
    let files = std::env::var(FILES_VARIABLE).map_or(files, |files| files.parse().expect(FILES_VARIABLE));
    for number in 0..files {
        let mut mutator = Mutator::new(number);
        let [file, other] = [(); 2].map(|()| mutator.below(valid.len()));
        let bytes = mutator.mutate(&valid[file], &valid[other]);
        let context = || {
            let head = bytes[..bytes.len().min(400)].escape_ascii();
            format!("{name}, mutation {number} ({} bytes), `{head}`", bytes.len())
        };
        let start = Instant::now();
        let mut result = None;
        let allocated = peak_allocation(|| result = catch_unwind(AssertUnwindSafe(|| read(&bytes))).ok());
        let duration = start.elapsed();
        let result = result.unwrap_or_else(|| panic!("{}: the reader panicked", context()));
        assert!(
            duration < MAX_DURATION,
            "{}: the reader took {duration:?}",
            context()
        );
        let limit = base_memory + MEMORY_PER_BYTE * bytes.len();
        assert!(
            allocated <= limit,
            "{}: {allocated} bytes were allocated",
            context()
        );
        if let Err(error) = result {
            let is_paragraph = !error.trim().is_empty() && !error.contains("\n\n");
            assert!(
                is_paragraph && error.len() <= MAX_ERROR_BYTES + MEMORY_PER_BYTE * bytes.len(),
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
    fn mutations_depend_only_on_the_seed() {
        let changed = |seed| Mutator::new(seed).mutate(b"a file of 32 bytes, some of them", b"other");
        assert_eq!(changed(7), changed(7));
        let mutations: std::collections::BTreeSet<Vec<u8>> = (0..100).map(changed).collect();
        assert!(mutations.len() > 80, "{} of 100 differ", mutations.len());
        assert!((0..1000).all(|seed| Mutator::new(seed).mutate(b"", b"").len() <= MAX_FILE_BYTES));
    }

    #[test]
    #[should_panic(expected = "the reader panicked")]
    fn a_reader_that_trusts_a_length_fails_the_check() {
        let read = |bytes: &[u8]| {
            let length = usize::from(*bytes.first().ok_or("it is empty")?);
            drop(bytes[1..=length].to_vec());
            Ok(())
        };
        assert_robust("lengths", &[b"\x03abc".to_vec()], 1000, read);
    }

    #[test]
    #[should_panic(expected = "an error of 0 bytes")]
    fn an_empty_error_message_fails_the_check() {
        let read = |bytes: &[u8]| match bytes {
            b"valid" => Ok(()),
            _ => Err(String::new()),
        };
        assert_robust("nothing", &[b"valid".to_vec()], 100, read);
    }
}
