//! Byte-pair merging of SentencePiece and llama2.c. Repeatedly merges the neighbours whose concatenation is the piece with the highest score; of
//! equal scores, the leftmost.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

/// Marker for a missing neighbour.
const NONE: u32 = u32::MAX;

/// Byte range of a text. Empty after the symbol was merged into its left neighbour.
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
pub(super) fn merged(
    text: &str,
    symbols: impl Iterator<Item = (usize, bool)>,
    score: impl Fn(&str) -> Option<f32>,
) -> Vec<Range<usize>> {
    assert!(text.len() < NONE as usize, "the text has 4 GiB or more");
    let mut line = Line {
        text,
        score,
        symbols: vec![],
        pairs: BinaryHeap::new(),
    };
    let mut start = 0;
    for (bytes, is_atomic) in symbols {
        let index = line.symbols.len() as u32;
        let end = start + bytes as u32;
        let is_last = end as usize == text.len();
        line.symbols.push(Symbol {
            start,
            end,
            before: index.wrapping_sub(1), // `NONE` for the first symbol.
            after: if is_last { NONE } else { index + 1 },
            is_atomic,
        });
        start = end;
    }
    assert_eq!(start as usize, text.len(), "the symbols do not cover the text");
    for right in 1..line.symbols.len() as u32 {
        line.consider(right - 1, right);
    }
    while let Some(pair) = line.pairs.pop() {
        line.merge(pair);
    }
    let remaining = line.symbols.iter().filter(|symbol| symbol.start < symbol.end);
    remaining
        .map(|symbol| symbol.start as usize..symbol.end as usize)
        .collect()
}

/// State of the merging of a text.
struct Line<'a, F> {
    text: &'a str,
    score: F,
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Pair>,
}

impl<F: Fn(&str) -> Option<f32>> Line<'_, F> {
    /// Queues a pair of neighbours if their concatenation is a piece.
    fn consider(&mut self, left: u32, right: u32) {
        if left == NONE || right == NONE {
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
        if after != NONE {
            self.symbols[after as usize].before = left;
        }
        self.consider(before, left);
        self.consider(left, after);
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
        let places = merged(text, letters, score);
        places.into_iter().map(|place| &text[place]).collect()
    }

    #[test]
    fn the_pair_with_the_highest_score_is_merged_first_and_the_leftmost_of_equal_pairs() {
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
