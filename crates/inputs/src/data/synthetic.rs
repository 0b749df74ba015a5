//! Seeded generator of labelled movie reviews, for machines without data.
//!
//! A review contains one to four opinions about a film. A verdict ("overall , …") determines the label, and without a verdict the majority of the
//! opinions does. The label depends on word order, because opinions may be negated ("hardly clever") or conceded ("although the acting was
//! superb , …", where the main clause counts). Other sentences do not rate the film, or rate another film.

use rand::{Rng, seq::SliceRandom};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rayon::prelude::*;

use super::{Example, grammar};

/// Number of training examples if a split does not set it.
pub const DEFAULT_TRAIN: u32 = 4_000;
/// Number of test examples if a split does not set it.
pub const DEFAULT_TEST: u32 = 1_000;
/// Share of reviews with a wrong label. The maximum accuracy is one minus this share.
pub const LABEL_NOISE: f64 = 0.03;

/// Share of reviews with a verdict.
const VERDICT_SHARE: f64 = 0.5;
/// Share of verdicts at the beginning. The others are at the end, where truncation to a short sequence removes them.
const VERDICT_FIRST_SHARE: f64 = 0.5;
/// Share of opinions that agree with the verdict. It is above 0.5, as in real reviews.
const AGREEMENT_SHARE: f64 = 0.8;
/// Maximum number of opinions in a review, without the verdict.
const MAX_OPINIONS: usize = 4;
/// Maximum number of sentences about the story.
const MAX_PLOT_SENTENCES: usize = 3;
/// Maximum number of remarks about other films.
const MAX_OTHER_REMARKS: usize = 2;

/// Generates `n` reviews, with label 1 for praise. The same seed produces the same bytes on every machine. A shorter list is a prefix of a longer
/// one.
pub fn synthetic_reviews(seed: u64, n: usize) -> Vec<Example> {
    let example = |index| {
        let mut rng = random_stream(seed, index);
        let (text, praise) = review(&mut rng);
        let is_wrong = rng.random_bool(LABEL_NOISE);
        Example {
            label: u32::from(praise != is_wrong),
            text,
        }
    };
    (0..n as u64).into_par_iter().map(example).collect()
}

/// Generates `n` texts of at least this many words, each a sequence of reviews. The same seed produces the same bytes on every machine. A shorter
/// list is a prefix of a longer one.
pub(super) fn synthetic_passages(seed: u64, n: usize, words: usize) -> Vec<String> {
    let passage = |index| {
        let mut rng = random_stream(seed, index);
        let (mut reviews, mut count) = (vec![], 0);
        while count < words {
            let (text, _) = review(&mut rng);
            count += text.split_whitespace().count();
            reviews.push(text);
        }
        reviews.join(" ")
    };
    (0..n as u64).into_par_iter().map(passage).collect()
}

/// Returns the random number generator of a review or text, which is independent of all others.
fn random_stream(seed: u64, index: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index);
    rng
}

/// Generates a review. The flag is true for praise.
fn review(rng: &mut ChaCha8Rng) -> (String, bool) {
    let praise = rng.random();
    let verdict = rng
        .random_bool(VERDICT_SHARE)
        .then(|| sentence("verdict", praise, rng));
    let count = rng.random_range(1..=MAX_OPINIONS);
    let opinions: Vec<bool> = if verdict.is_some() {
        (0..count)
            .map(|_| rng.random_bool(AGREEMENT_SHARE) == praise)
            .collect()
    } else {
        let minority = rng.random_range(0..=(count - 1) / 2);
        (0..count).map(|i| (i >= minority) == praise).collect()
    };

    let mut sentences: Vec<_> = opinions
        .into_iter()
        .map(|praises| sentence("opinion", praises, rng))
        .collect();
    for _ in 0..rng.random_range(0..=MAX_PLOT_SENTENCES) {
        sentences.push(sentence("plot", true, rng));
    }
    for _ in 0..rng.random_range(0..=MAX_OTHER_REMARKS) {
        let praises = rng.random();
        sentences.push(sentence("other", praises, rng));
    }
    sentences.shuffle(rng);
    if let Some(verdict) = verdict {
        let position = if rng.random_bool(VERDICT_FIRST_SHARE) {
            0
        } else {
            sentences.len()
        };
        sentences.insert(position, verdict);
    }
    (sentences.join(" "), praise)
}

/// Expands `symbol` to a sentence with a capital letter and a full stop.
fn sentence(symbol: &str, praise: bool, rng: &mut ChaCha8Rng) -> String {
    let mut text = String::new();
    expand(symbol, praise, rng, &mut text);
    text[..1].make_ascii_uppercase();
    text.push('.');
    text
}

/// Appends a random expansion of `symbol` to `out`.
fn expand(symbol: &str, praise: bool, rng: &mut ChaCha8Rng, out: &mut String) {
    let phrases = grammar::phrases(symbol, praise);
    for word in phrases[rng.random_range(0..phrases.len())].split(' ') {
        if let Some(slot) = word.strip_prefix('<').and_then(|word| word.strip_suffix('>')) {
            match slot.strip_prefix('~') {
                Some(opposite) => expand(opposite, !praise, rng, out),
                None => expand(slot, praise, rng, out),
            }
        } else {
            if !out.is_empty() && word != "," {
                out.push(' ');
            }
            out.push_str(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Splits a text into lowercase words and punctuation, like the tokenizer.
    fn words(text: &str) -> Vec<String> {
        let spaced = text.to_lowercase().replace('.', " .").replace(',', " ,");
        spaced.split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the test accuracy of a logistic regression on the presence of n-grams of up to `longest` words.
    fn n_gram_accuracy(train: &[Example], test: &[Example], longest: usize) -> f64 {
        const EPOCHS: usize = 12;
        const RATE: f64 = 0.03;
        const DECAY: f64 = 1e-5;
        let mut index = BTreeMap::new();
        let mut features = |example: &Example| -> BTreeSet<usize> {
            let words = words(&example.text);
            (1..=longest)
                .flat_map(|n| words.windows(n))
                .map(|run| {
                    let next = index.len();
                    *index.entry(run.join(" ")).or_insert(next)
                })
                .collect()
        };
        let train: Vec<_> = train.iter().map(|e| (features(e), f64::from(e.label))).collect();
        let test: Vec<_> = test.iter().map(|e| (features(e), f64::from(e.label))).collect();
        let mut weights = vec![0.0; index.len()];
        let logit = |weights: &[f64], set: &BTreeSet<usize>| set.iter().map(|&f| weights[f]).sum::<f64>();
        for _ in 0..EPOCHS {
            for (set, label) in &train {
                let error = label - 1.0 / (1.0 + (-logit(&weights, set)).exp());
                for &f in set {
                    weights[f] += RATE * error - DECAY * weights[f];
                }
            }
        }
        let correct = test
            .iter()
            .filter(|(set, label)| (logit(&weights, set) > 0.0) == (*label > 0.5))
            .count();
        correct as f64 / test.len() as f64
    }

    #[test]
    fn the_same_seed_produces_the_same_bytes_on_every_machine() {
        let mut hasher = blake3::Hasher::new();
        for Example { label, text } in synthetic_reviews(1, 200) {
            hasher.update(format!("{label}\t{text}\n").as_bytes());
        }
        // This hash may change only if the grammar changes. Results are then not comparable with those of earlier runs.
        assert_eq!(hasher.finalize().to_hex()[..16], *"28859076fdfaca86");
    }

    #[test]
    fn a_shorter_list_is_a_prefix_of_a_longer_one() {
        assert_eq!(synthetic_reviews(3, 50)[..20], synthetic_reviews(3, 20));
        assert_ne!(synthetic_reviews(4, 20), synthetic_reviews(3, 20));
    }

    #[test]
    fn passages_are_long_enough_and_independent_of_the_count() {
        let passages = synthetic_passages(3, 20, 200);
        assert_eq!(passages[..5], synthetic_passages(3, 5, 200));
        assert_ne!(passages[..5], synthetic_passages(4, 5, 200));
        assert!(passages.iter().all(|text| text.split(' ').count() >= 200));
        let words: BTreeSet<String> = passages.iter().flat_map(|text| words(text)).collect();
        assert!(words.len() > 200, "{}", words.len());
    }

    #[test]
    fn labels_are_balanced_and_three_percent_are_wrong() {
        let reviews = synthetic_reviews(5, 20_000);
        let share = |count: usize| count as f64 / reviews.len() as f64;
        let ones = share(reviews.iter().filter(|review| review.label == 1).count());
        let is_wrong = |(index, given): &(u64, &Example)| {
            let (text, praise) = review(&mut random_stream(5, *index));
            assert_eq!(text, given.text);
            (given.label == 1) != praise
        };
        let wrong = share((0..).zip(&reviews).filter(is_wrong).count());
        assert!((0.48..0.52).contains(&ones), "{ones}");
        assert!((wrong - LABEL_NOISE).abs() < 0.005, "{wrong}");
    }

    #[test]
    fn reviews_use_exactly_the_words_of_the_grammar() {
        let reviews = synthetic_reviews(6, 20_000);
        let mut seen: BTreeSet<String> = reviews.iter().flat_map(|review| words(&review.text)).collect();
        seen.retain(|word| word != "." && word != ",");
        assert_eq!(seen, grammar::words());
    }

    #[test]
    fn review_lengths_cover_the_usual_sequence_lengths() {
        let mut lengths: Vec<_> = synthetic_reviews(8, 2_000)
            .iter()
            .map(|r| words(&r.text).len())
            .collect();
        lengths.sort_unstable();
        let quantiles = [0, 500, 1_000, 1_500, 1_999].map(|at| lengths[at]);
        println!("review length in words and punctuation marks (quartiles): {quantiles:?}");
        let above = |n| lengths.iter().filter(|&&length| length > n).count();
        assert!(
            above(32) > 1_000 && above(96) > 5 && above(160) == 0,
            "{quantiles:?}"
        );
    }

    #[test]
    fn main_clause_polarity_survives_negation_and_concession() {
        /// Returns the sign of the number of praising words minus the number of blaming words. A negation inverts all later words of the clause.
        fn polarity(clause: &str) -> i32 {
            const NEGATIONS: [&str; 9] = [
                "not", "hardly", "never", "far", "anything", "nobody", "nothing", "cannot", "wrong",
            ];
            let (mut sign, mut sum) = (1, 0_i32);
            for word in words(clause) {
                if NEGATIONS.contains(&word.as_str()) {
                    sign = -sign;
                }
                for symbol in ["quality", "enjoyed", "enjoy"] {
                    for (praise, value) in [(true, sign), (false, -sign)] {
                        if grammar::phrases(symbol, praise).contains(&word.as_str()) {
                            sum += value;
                        }
                    }
                }
            }
            sum.signum()
        }
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for praise in [true, false] {
            let expected = if praise { 1 } else { -1 };
            for symbol in ["clause", "judgement"] {
                for _ in 0..2_000 {
                    let text = sentence(symbol, praise, &mut rng);
                    assert_eq!(polarity(&text), expected, "{text}");
                }
            }
            for _ in 0..2_000 {
                let text = sentence("contrast", praise, &mut rng).to_lowercase();
                let clauses: Vec<_> = text.split(", ").collect();
                let concedes = |clause: &str| {
                    ["although", "even", "while", "some say"]
                        .iter()
                        .any(|word| clause.starts_with(word))
                };
                let main = match (concedes(clauses[0]), concedes(clauses[1])) {
                    (false, true) => clauses[0],
                    _ => clauses[1], // `…, but …`
                };
                assert_eq!(polarity(main), expected, "{text}");
            }
        }
    }

    #[test]
    fn bag_of_words_accuracy_is_far_below_the_maximum() {
        let reviews = synthetic_reviews(7, 12_000);
        let (train, test) = reviews.split_at(10_000);
        let (bag, n_grams) = (n_gram_accuracy(train, test, 1), n_gram_accuracy(train, test, 4));
        println!("accuracy with a bag of words {bag:.3}, with n-grams of up to four words {n_grams:.3}");
        assert!((0.70..0.85).contains(&bag), "accuracy with a bag of words: {bag}");
        assert!(
            n_grams > bag + 0.03,
            "accuracy with n-grams {n_grams}, with a bag of words {bag}"
        );
        let small = n_gram_accuracy(&train[..2_000], test, 1);
        println!("accuracy with a bag of words from 2,000 examples {small:.3}");
    }
}
