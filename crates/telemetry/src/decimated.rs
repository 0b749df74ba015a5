//! List of bounded length for runs of any duration.

/// Maximum number of items: 2.7 minutes at 100 Hz. When it is exceeded, every second item is dropped and the spacing
/// doubles. Values that must not depend on the spacing (peaks, sums, intervals) are computed from all items as they
/// arrive.
pub(crate) const MAX_ITEMS: usize = 1 << 14;

/// Items in order of arrival. As the list grows, it keeps only every second, fourth, … item, and the last one.
#[derive(Debug, Clone)]
pub(crate) struct Decimated<T> {
    kept: Vec<T>,
    /// The last item, if it is not in `kept`.
    tail: Option<T>,
    /// Every item whose index is a multiple of this number is kept; a power of two.
    stride: usize,
    seen: usize,
}

impl<T> Default for Decimated<T> {
    fn default() -> Self {
        Self {
            kept: vec![],
            tail: None,
            stride: 1,
            seen: 0,
        }
    }
}

impl<T> Decimated<T> {
    pub(crate) fn push(&mut self, item: T) {
        if self.seen.is_multiple_of(self.stride) {
            self.kept.push(item);
            self.tail = None;
        } else {
            self.tail = Some(item);
        }
        self.seen += 1;
        if self.kept.len() > MAX_ITEMS {
            let mut index = 0..;
            self.kept
                .retain(|_| index.next().is_some_and(|i: usize| i.is_multiple_of(2)));
            self.stride *= 2;
        }
    }

    /// Returns the evenly spaced items.
    pub(crate) fn evenly_spaced(&self) -> &[T] {
        &self.kept
    }

    /// Returns all items that are kept, including the last one.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.kept.iter().chain(&self.tail)
    }

    /// Returns the neighbours of the key `at` in a list that is sorted by key: the last item with a key ≤ `at`, and the
    /// first item with a key ≥ `at`. An item with the key `at` is both.
    pub(crate) fn neighbours(&self, at: f64, key: impl Fn(&T) -> f64) -> (Option<&T>, Option<&T>) {
        let above = self.kept.partition_point(|item| key(item) <= at);
        let below = above.checked_sub(1).and_then(|index| self.kept.get(index));
        let tail = self.tail.as_ref();
        if below.is_some_and(|item| key(item) == at) {
            return (below, below);
        }
        match (self.kept.get(above), tail) {
            (Some(next), _) => (below, Some(next)),
            (None, Some(tail)) if key(tail) > at => (below, Some(tail)),
            (None, Some(tail)) if key(tail) == at => (Some(tail), Some(tail)),
            (None, Some(tail)) => (Some(tail), None),
            (None, None) => (below, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_is_even_and_keeps_the_last_item() {
        let mut list = Decimated::default();
        (0..MAX_ITEMS * 3).for_each(|item| list.push(item));
        assert!(list.evenly_spaced().len() <= MAX_ITEMS + 1);
        assert!(list.evenly_spaced().windows(2).all(|pair| pair[1] - pair[0] == 4));
        assert_eq!(list.iter().next_back(), Some(&(MAX_ITEMS * 3 - 1)));
    }

    #[test]
    fn neighbours_are_the_items_around_a_key() {
        let mut list = Decimated::default();
        [1.0, 2.0, 4.0].into_iter().for_each(|item| list.push(item));
        let neighbours = |at| {
            let (below, above) = list.neighbours(at, |item| *item);
            (below.copied(), above.copied())
        };
        assert_eq!(neighbours(3.0), (Some(2.0), Some(4.0)));
        assert_eq!(neighbours(2.0), (Some(2.0), Some(2.0)));
        assert_eq!(neighbours(0.0), (None, Some(1.0)));
        assert_eq!(neighbours(9.0), (Some(4.0), None));
    }

    #[test]
    fn the_last_item_is_a_neighbour_after_thinning() {
        let mut list = Decimated::default();
        let count = MAX_ITEMS * 3;
        (0..count).for_each(|item| list.push(item as f64));
        let last = (count - 1) as f64;
        assert_eq!(list.neighbours(last + 1.0, |item| *item), (Some(&last), None));
        assert_eq!(list.neighbours(last - 0.5, |item| *item).1, Some(&last));
        assert_eq!(list.neighbours(last, |item| *item).0, Some(&last));
    }
}
