//! Rotating copies of inputs, which keep the inputs of the next launch out of the device's cache.

use mantissa_core::{Backend, CacheState, Event, EventKind};
use mantissa_precision::device;

/// Assumed size of an unknown last-level cache: the largest of a GPU so far (Infinity Cache of an MI300X).
const UNKNOWN_CACHE_BYTES: u64 = 256 << 20;

/// Total size of the copies, as a multiple of the cache size. With two, little of a copy is still cached at its next use, under any replacement
/// policy.
const CACHE_MULTIPLE: u64 = 2;

/// Maximum number of copies. The upload of more copies would take longer than the measurement.
const MAX_COPIES: u64 = 4096;

/// Copies of a launch's inputs on the device, which are used in rotation.
pub(super) struct RotatingCopies<T> {
    /// At least one.
    copies: Vec<T>,
    launches: usize,
}

impl<T> RotatingCopies<T> {
    /// Creates `copies` copies, of which the first already exists.
    pub(super) fn new(first: T, copies: Copies, copy: impl FnMut() -> T) -> Self {
        let others = std::iter::repeat_with(copy).take(copies.count - 1);
        Self::from_vec([first].into_iter().chain(others).collect())
    }

    /// Creates a rotation of existing copies, at least one.
    pub(super) fn from_vec(copies: Vec<T>) -> Self {
        Self { copies, launches: 0 }
    }

    /// Returns the inputs of the next launch.
    pub(super) fn next(&mut self) -> &T {
        let index = self.launches % self.copies.len();
        self.launches += 1;
        &self.copies[index]
    }
}

/// Number of copies of the inputs in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copies {
    /// At least one.
    count: usize,
    /// Bytes of one copy.
    bytes: u64,
    /// Bytes of the last-level cache: `Some(None)` if the size is unknown, `None` for measurements with a warm cache, which do not need the size.
    cache: Option<Option<u64>>,
}

impl Copies {
    /// Returns the number of copies for a cache state, with inputs of `bytes` each.
    pub(super) fn for_state(state: CacheState, backend: Backend, bytes: u64) -> Self {
        match state {
            CacheState::Warm => Self {
                count: 1,
                bytes,
                cache: None,
            },
            CacheState::Cold => Self::exceeding(device::last_level_cache(backend), bytes),
        }
    }

    /// Returns copies with a total size of [`CACHE_MULTIPLE`] times the cache, at most [`MAX_COPIES`].
    fn exceeding(cache: Option<u64>, bytes: u64) -> Self {
        let total = CACHE_MULTIPLE * cache.unwrap_or(UNKNOWN_CACHE_BYTES);
        let count = total.div_ceil(bytes.max(1)).clamp(1, MAX_COPIES);
        Self {
            count: usize::try_from(count).unwrap_or(usize::MAX),
            bytes,
            cache: Some(cache),
        }
    }

    /// Returns the number of copies.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the event that describes the copies in the record.
    pub(super) fn event(&self) -> Event {
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let total = self.bytes * self.count as u64;
        let detail = match self.cache {
            None => format!("warm: every launch reads the same inputs of {}", megabytes(total)),
            Some(cache_bytes) => {
                let cache = match cache_bytes {
                    Some(bytes) => format!("last-level cache {}", megabytes(bytes)),
                    None => "last-level cache of unknown size".to_owned(),
                };
                let fits = cache_bytes.is_some_and(|bytes| total <= bytes);
                let warning = if fits {
                    ", which can contain all inputs"
                } else {
                    ""
                };
                let inputs = match self.count {
                    1 => "inputs".to_owned(),
                    count => format!("{count} rotating copies of the inputs, in total"),
                };
                format!("cold: {inputs} {}; {cache}{warning}", megabytes(total))
            }
        };
        Event {
            kind: EventKind::Cache,
            step: None,
            value: Some(self.count as f64),
            detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_copies_together_exceed_the_cache() {
        let copies = Copies::exceeding(Some(32 << 20), 1 << 20);
        assert_eq!(copies.count, 64);
        assert_eq!(
            copies.event().detail,
            "cold: 64 rotating copies of the inputs, in total 67.1 MB; last-level cache 33.6 MB"
        );
        assert_eq!(
            Copies::exceeding(Some(32 << 20), 1 << 30).count,
            1,
            "one copy of large inputs already exceeds the cache"
        );
        assert_eq!(Copies::exceeding(None, 1 << 20).count, 512);
    }

    #[test]
    fn copies_that_fit_into_the_cache_are_reported() {
        let detail = Copies::exceeding(Some(32 << 20), 64).event().detail;
        assert!(
            detail.ends_with("33.6 MB, which can contain all inputs"),
            "{detail}"
        );
    }

    #[test]
    fn launches_rotate_the_copies() {
        let mut next = 1..3;
        let mut copies = RotatingCopies::new(0, Copies::exceeding(Some(3), 2), || next.next().unwrap());
        assert_eq!([(); 5].map(|()| *copies.next()), [0, 1, 2, 0, 1]);
    }
}
