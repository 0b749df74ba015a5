//! Byte-pair merging of SentencePiece and llama2.c: repeatedly merges the neighbours whose concatenation is the piece with the highest score,
//! the leftmost of equal ones.

use std::{cmp::Ordering, collections::BinaryHeap, ops::Range};

/// Marker for a missing neighbour.
const NONE: u32 = u32::MAX;

/// Range of a text. Empty after it is merged into its left neighbour.
struct Symbol {
    start: u32,
    end: u32,
    before: u32,
    after: u32,
    /// True if the symbol is never merged.
    whole: bool,
}

/// Neighbours whose concatenation is a piece of this many bytes.
struct Pair {
    score: f32,
    left: u32,
    right: u32,
    bytes: u32,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        let scores = self.score.total_cmp(&other.score);
        scores.then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

/// Returns the ranges of the pieces of a text. `symbols` are the initial symbols, each with its number of bytes and a flag that is true if it is
/// never merged. `score` returns the score of a piece.
///
/// # Panics
/// If the text has 4 GiB or more, or the symbols do not cover it.
pub(super) fn merged(
    text: &str,
    symbols: impl Iterator<Item = (usize, bool)>,
    score: impl Fn(&str) -> Option<f32>,
) -> Vec<Range<usize>> {
    assert!(text.len() < NONE as usize, "more text than can be numbered");
    let mut line = Line {
        text,
        score,
        symbols: vec![],
        pairs: BinaryHeap::new(),
    };
    let mut start = 0;
    for (bytes, whole) in symbols {
        let index = line.symbols.len() as u32;
        let end = start + bytes as u32;
        line.symbols.push(Symbol {
            start,
            end,
            before: index.checked_sub(1).unwrap_or(NONE),
            after: if (end as usize) < text.len() {
                index + 1
            } else {
                NONE
            },
            whole,
        });
        start = end;
    }
    assert_eq!(start as usize, text.len(), "symbols are all of the text");
    for right in 1..line.symbols.len() as u32 {
        line.consider(right - 1, right);
    }
    while let Some(pair) = line.pairs.pop() {
        line.merge(&pair);
    }
    let left = line.symbols.iter().filter(|symbol| symbol.start < symbol.end);
    left.map(|symbol| symbol.start as usize..symbol.end as usize)
        .collect()
}

struct Line<'a, F> {
    text: &'a str,
    score: F,
    symbols: Vec<Symbol>,
    pairs: BinaryHeap<Pair>,
}

impl<F: Fn(&str) -> Option<f32>> Line<'_, F> {
    /// Queues two neighbours if their concatenation is a piece.
    fn consider(&mut self, left: u32, right: u32) {
        if left == NONE || right == NONE {
            return;
        }
        let (first, second) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        if first.whole || second.whole {
            return;
        }
        let (start, end) = (first.start, second.end);
        if let Some(score) = (self.score)(&self.text[start as usize..end as usize]) {
            self.pairs.push(Pair {
                score,
                left,
                right,
                bytes: end - start,
            });
        }
    }

    /// Merges two symbols, unless one of them was merged with another since the pair was queued.
    fn merge(&mut self, pair: &Pair) {
        let (first, second) = (
            &self.symbols[pair.left as usize],
            &self.symbols[pair.right as usize],
        );
        let (end, after) = (second.end, second.after);
        let are_there = first.start < first.end && second.start < second.end;
        if !are_there || end - first.start != pair.bytes {
            return;
        }
        let before = first.before;
        let second = &mut self.symbols[pair.right as usize];
        second.start = second.end;
        let first = &mut self.symbols[pair.left as usize];
        (first.end, first.after) = (end, after);
        if after != NONE {
            self.symbols[after as usize].before = pair.left;
        }
        self.consider(before, pair.left);
        self.consider(pair.left, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pieces of a text that starts as single letters, with these scores of pieces.
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
    fn the_best_pair_comes_first_and_of_equals_the_leftmost() {
        let scores = [("ab", -2.0), ("bc", -1.0), ("aa", -3.0), ("aaa", -4.0)];
        assert_eq!(pieces("abc", &scores), ["a", "bc"]);
        assert_eq!(pieces("aaaa", &scores), ["aa", "aa"]);
        assert_eq!(pieces("aaa", &scores), ["aaa"]);
        assert_eq!(pieces("abab", &scores), ["ab", "ab"]);
        assert!(pieces("", &scores).is_empty());
    }

    #[test]
    fn what_is_whole_is_merged_with_nothing() {
        let scores = [("a!", 0.0), ("!a", 0.0), ("aa", 0.0)];
        assert_eq!(pieces("aa!aa", &scores), ["aa", "!", "aa"]);
    }

    #[test]
    fn a_text_of_megabytes_takes_no_time_to_speak_of() {
        let text = "abcab".repeat(200_000);
        let scores = [("ab", -1.0), ("abc", -2.0), ("abcab", -3.0), ("bc", -4.0)];
        let found = pieces(&text, &scores);
        assert_eq!(found.len(), 200_000);
        assert!(found.iter().all(|piece| *piece == "abcab"));
    }
}
