//! Byte-pair merging of SentencePiece and llama2.c. Repeatedly merges the two neighbours whose concatenation is the piece with the highest
//! score. The leftmost pair wins ties.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

/// Index of a missing neighbour.
const NO_SYMBOL: u32 = u32::MAX;

/// Byte range of the text. It is empty after the symbol was merged into its left neighbour.
struct Symbol {
    start: u32,
    end: u32,
    before: u32,
    after: u32,
    /// True if the symbol must not be merged.
    is_atomic: bool,
}

/// Pair of neighbours whose concatenation is a piece: its rank, the left symbol, the right symbol, and the number of bytes of the piece. The heap
/// returns the highest rank first, and the leftmost of equal ranks.
type Pair = (i32, Reverse<u32>, u32, u32);

/// Returns an integer with the order of [`f32::total_cmp`].
fn rank(score: f32) -> i32 {
    let bits = score.to_bits().cast_signed();
    if bits < 0 { bits ^ i32::MAX } else { bits }
}

/// Returns the ranges of the pieces of a text. `symbols` are the initial symbols: the number of bytes, and true if the symbol must not be merged.
/// `score` returns the score of a piece.
///
/// # Panics
/// If the text has 4 GiB or more, or the symbols do not cover it.
pub(super) fn merge_pieces(
    text: &str,
    symbols: impl Iterator<Item = (usize, bool)>,
    score: impl Fn(&str) -> Option<f32>,
) -> Vec<Range<usize>> {
    assert!(text.len() < NO_SYMBOL as usize, "the text has 4 GiB or more");
    let mut merger = Merger {
        text,
        score,
        symbols: vec![],
        pairs: BinaryHeap::new(),
    };
    let mut start = 0;
    for (bytes, is_atomic) in symbols {
        let index = merger.symbols.len() as u32;
        let end = start + bytes as u32;
        let is_last = end as usize == text.len();
        merger.symbols.push(Symbol {
            start,
            end,
            before: index.wrapping_sub(1), // `NO_SYMBOL` for the first symbol.
            after: if is_last { NO_SYMBOL } else { index + 1 },
            is_atomic,
        });
        start = end;
    }
    assert_eq!(start as usize, text.len(), "the symbols do not cover the text");
    for right in 1..merger.symbols.len() as u32 {
        merger.queue_pair(right - 1, right);
    }
    while let Some(pair) = merger.pairs.pop() {
        merger.merge(pair);
    }
    let remaining = merger.symbols.iter().filter(|symbol| symbol.start < symbol.end);
    remaining
        .map(|symbol| symbol.start as usize..symbol.end as usize)
        .collect()
}

/// Merging of one text.
struct Merger<'a, F> {
    text: &'a str,
    score: F,
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Pair>,
}

impl<F: Fn(&str) -> Option<f32>> Merger<'_, F> {
    /// Queues a pair of neighbours if their concatenation is a piece.
    fn queue_pair(&mut self, left: u32, right: u32) {
        if left == NO_SYMBOL || right == NO_SYMBOL {
            return;
        }
        let (first, second) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        if first.is_atomic || second.is_atomic {
            return;
        }
        let (start, end) = (first.start, second.end);
        if let Some(score) = (self.score)(&self.text[start as usize..end as usize]) {
            self.pairs.push((rank(score), Reverse(left), right, end - start));
        }
    }

    /// Merges a pair, unless one of its symbols was merged with another symbol since the pair was queued.
    fn merge(&mut self, (_, Reverse(left), right, bytes): Pair) {
        let (first, second) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        let (before, end, after) = (first.before, second.end, second.after);
        let exist = first.start < first.end && second.start < second.end;
        if !exist || end - first.start != bytes {
            return;
        }
        self.symbols[right as usize].start = end;
        let first = &mut self.symbols[left as usize];
        (first.end, first.after) = (end, after);
        if after != NO_SYMBOL {
            self.symbols[after as usize].before = left;
        }
        self.queue_pair(before, left);
        self.queue_pair(left, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges the letters of a text with these scores of pieces. The letter `!` is not merged.
    fn pieces<'a>(text: &'a str, scores: &[(&str, f32)]) -> Vec<&'a str> {
        let score = |piece: &str| {
            scores
                .iter()
                .find(|(known, _)| *known == piece)
                .map(|(_, score)| *score)
        };
        let letters = text.chars().map(|letter| (letter.len_utf8(), letter == '!'));
        let ranges = merge_pieces(text, letters, score);
        ranges.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn highest_score_is_merged_first_and_the_leftmost_of_ties() {
        let scores = [("ab", -2.0), ("bc", -1.0), ("aa", -3.0), ("aaa", -4.0)];
        assert_eq!(pieces("abc", &scores), ["a", "bc"]);
        assert_eq!(pieces("aaaa", &scores), ["aa", "aa"]);
        assert_eq!(pieces("aaa", &scores), ["aaa"]);
        assert_eq!(pieces("abab", &scores), ["ab", "ab"]);
        assert!(pieces("", &scores).is_empty());
    }

    #[test]
    fn atomic_symbols_are_not_merged() {
        let scores = [("a!", 0.0), ("!a", 0.0), ("aa", 0.0)];
        assert_eq!(pieces("aa!aa", &scores), ["aa", "!", "aa"]);
    }

    #[test]
    fn a_text_of_a_megabyte_is_merged_quickly() {
        let text = "abcab".repeat(200_000);
        let scores = [("ab", -1.0), ("abc", -2.0), ("abcab", -3.0), ("bc", -4.0)];
        let found = pieces(&text, &scores);
        assert_eq!(found.len(), 200_000);
        assert!(found.iter().all(|piece| *piece == "abcab"));
    }
}
