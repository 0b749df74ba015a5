//! Splits labelled data into training, validation and test parts.

use mantissa_core::Split;
use rand::seq::SliceRandom;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::DataError;

/// Examples in the parts that the data set defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given<T> {
    pub train: Vec<T>,
    pub validation: Option<Vec<T>>,
    pub test: Option<Vec<T>>,
}

/// The three parts of a split.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Divided<T> {
    pub train: Vec<T>,
    pub validation: Vec<T>,
    pub test: Vec<T>,
}

/// Part of a data set to load.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// All of it, split for training.
    Divided(Split),
    /// Only a test set for a trained model, with at most this many examples.
    Test(Option<u32>),
}

impl Wanted {
    /// Selects the wanted examples.
    pub(super) fn of<T>(&self, given: Given<T>) -> Result<Divided<T>, DataError> {
        match self {
            Self::Divided(split) => divide(given, split),
            Self::Test(limit) => {
                let test = to_test(given, *limit);
                if test.is_empty() {
                    return Err(DataError::TooFew {
                        what: "test",
                        asked: 1,
                        available: 0,
                    });
                }
                Ok(Divided {
                    train: vec![],
                    validation: vec![],
                    test,
                })
            }
        }
    }

    /// Returns a suffix for the name of the data if the test set is not a given test part.
    pub(super) fn remark<T>(&self, given: &Given<T>) -> &'static str {
        match self {
            Self::Test(_) if given.test.is_some() => "",
            Self::Test(_) if given.validation.is_some() => ", its validation part",
            Self::Test(_) => ", which has no test part",
            Self::Divided(_) => "",
        }
    }
}

/// Returns the test set for a pretrained model: the given test part, else the validation part, else all examples. If there are more than `limit`
/// examples, selects a fixed sample.
fn to_test<T>(given: Given<T>, limit: Option<u32>) -> Vec<T> {
    let Given {
        train,
        validation,
        test,
    } = given;
    let mut examples = test.or(validation).unwrap_or(train);
    if let Some(limit) = limit.filter(|limit| (*limit as usize) < examples.len()) {
        shuffle(&mut examples, 0, 2);
        examples.truncate(limit as usize);
    }
    examples
}

/// Splits examples, with an optional test part, into training, validation and test. Also returns a suffix for the name of
/// the data.
pub fn divided<T>(
    train: Vec<T>,
    test: Option<Vec<T>>,
    wanted: &Wanted,
) -> Result<([Vec<T>; 3], &'static str), DataError> {
    let given = Given {
        train,
        validation: None,
        test,
    };
    let remark = wanted.remark(&given);
    let Divided {
        train,
        validation,
        test,
    } = wanted.of(given)?;
    Ok(([train, validation, test], remark))
}

/// Splits the given parts as `split` defines. Every part is shuffled with the seed of the split first, because files are often sorted by label.
///
/// Without `join`, given parts are kept: `train` and `test` are upper limits, and so is `validation` if a validation part is given. Otherwise,
/// exactly `validation` examples are taken from the training part. With `join`, or without a given test part, all examples are pooled, and exactly
/// the requested sizes are taken from the pool.
pub(super) fn divide<T>(given: Given<T>, split: &Split) -> Result<Divided<T>, DataError> {
    let Given {
        mut train,
        validation,
        test,
    } = given;
    match (test, split.join) {
        (Some(mut test), false) => {
            shuffle(&mut train, split.seed, 0);
            shuffle(&mut test, split.seed, 2);
            let validation = match validation {
                Some(mut given) => {
                    shuffle(&mut given, split.seed, 1);
                    given.truncate(split.validation as usize);
                    given
                }
                None => cut(&mut train, split.validation, "validation")?,
            };
            train.truncate(split.train.map_or(usize::MAX, |n| n as usize));
            test.truncate(split.test.map_or(usize::MAX, |n| n as usize));
            at_least_one(Divided {
                train,
                validation,
                test,
            })
        }
        (test, _) => {
            let mut pool = train;
            pool.extend(validation.into_iter().chain(test).flatten());
            shuffle(&mut pool, split.seed, 0);
            split_pool(pool, split)
        }
    }
}

fn split_pool<T>(mut pool: Vec<T>, split: &Split) -> Result<Divided<T>, DataError> {
    let sizes = [split.train, Some(split.validation), split.test];
    let requested: u64 = sizes.into_iter().flatten().map(u64::from).sum();
    let available = pool.len() as u64;
    if requested > available {
        return Err(DataError::TooFew {
            what: "training, validation and test",
            asked: requested,
            available,
        });
    }
    let test = match (split.train, split.test) {
        (None, None) => return Err(DataError::OpenSplit),
        (_, Some(test)) => test,
        (Some(_), None) => (available - requested) as u32,
    };
    let test = cut(&mut pool, test, "test")?;
    let validation = cut(&mut pool, split.validation, "validation")?;
    pool.truncate(split.train.map_or(usize::MAX, |n| n as usize));
    at_least_one(Divided {
        train: pool,
        validation,
        test,
    })
}

/// Removes `n` examples from the end.
fn cut<T>(from: &mut Vec<T>, n: u32, what: &'static str) -> Result<Vec<T>, DataError> {
    let remaining = from.len().checked_sub(n as usize).ok_or(DataError::TooFew {
        what,
        asked: n.into(),
        available: from.len() as u64,
    })?;
    Ok(from.split_off(remaining))
}

fn at_least_one<T>(divided: Divided<T>) -> Result<Divided<T>, DataError> {
    for (what, part) in [("training", &divided.train), ("test", &divided.test)] {
        if part.is_empty() {
            return Err(DataError::TooFew {
                what,
                asked: 1,
                available: 0,
            });
        }
    }
    Ok(divided)
}

/// Shuffles a part with its own random stream, to keep its order independent of the size of other parts.
fn shuffle<T>(examples: &mut [T], seed: u64, stream: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    examples.shuffle(&mut rng);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Example;
    use super::*;

    /// Creates `n` examples sorted by label, each with a different text.
    fn sorted(name: &str, n: u32) -> Vec<Example> {
        (0..n)
            .map(|i| Example {
                label: u32::from(i >= n / 2),
                text: format!("{name} {i}"),
            })
            .collect()
    }

    fn parts(train: u32, validation: Option<u32>, test: Option<u32>) -> Given<Example> {
        Given {
            train: sorted("train", train),
            validation: validation.map(|n| sorted("validation", n)),
            test: test.map(|n| sorted("test", n)),
        }
    }

    fn split(join: bool, train: Option<u32>, validation: u32, test: Option<u32>) -> Split {
        Split {
            join,
            train,
            validation,
            test,
            seed: 1,
        }
    }

    fn sizes<T>(divided: &Divided<T>) -> [usize; 3] {
        [divided.train.len(), divided.validation.len(), divided.test.len()]
    }

    fn texts<'a>(examples: impl IntoIterator<Item = &'a Example>) -> BTreeSet<&'a str> {
        examples
            .into_iter()
            .map(|example| example.text.as_str())
            .collect()
    }

    #[test]
    fn a_joined_split_takes_every_part_from_one_pool_without_overlap() {
        let divided = divide(
            parts(60, Some(10), Some(30)),
            &split(true, Some(70), 10, Some(20)),
        )
        .unwrap();
        assert_eq!(sizes(&divided), [70, 10, 20]);
        let all = texts(
            divided
                .train
                .iter()
                .chain(&divided.validation)
                .chain(&divided.test),
        );
        assert_eq!(all.len(), 100);
        assert!(texts(&divided.test).iter().any(|text| text.starts_with("train")));
    }

    #[test]
    fn a_joined_split_larger_than_the_data_is_an_error_with_both_sizes() {
        let error = divide(parts(60, None, Some(30)), &split(true, Some(80), 5, Some(10))).unwrap_err();
        let expected = "the split requests 95 training, validation and test examples, but the data has 90";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn an_open_size_takes_the_remaining_examples() {
        let sizes_of =
            |train, test| sizes(&divide(parts(60, None, Some(40)), &split(true, train, 10, test)).unwrap());
        assert_eq!(sizes_of(None, Some(20)), [70, 10, 20]);
        assert_eq!(sizes_of(Some(70), None), [70, 10, 20]);
        let both = divide(parts(60, None, Some(40)), &split(true, None, 10, None));
        assert!(matches!(both, Err(DataError::OpenSplit)));
        let nothing = divide(parts(60, None, Some(40)), &split(true, Some(90), 10, None));
        assert!(matches!(nothing, Err(DataError::TooFew { what: "test", .. })));
    }

    #[test]
    fn given_parts_are_kept_and_validation_is_cut_from_training() {
        let divided = divide(parts(60, None, Some(30)), &split(false, None, 10, None)).unwrap();
        assert_eq!(sizes(&divided), [50, 10, 30]);
        assert_eq!(texts(&divided.test), texts(&sorted("test", 30)));
        let training = texts(divided.train.iter().chain(&divided.validation)).len();
        assert_eq!(training, 60);
        let error = divide(parts(60, None, Some(30)), &split(false, None, 61, None)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the split requests 61 validation examples, but the data has 60")
        );
        let error = divide(parts(60, None, Some(30)), &split(false, None, 60, None)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the split requests 1 training examples, but the data has 0")
        );
    }

    #[test]
    fn sizes_of_given_parts_are_upper_limits() {
        let limited = divide(parts(60, None, Some(30)), &split(false, Some(20), 10, Some(5))).unwrap();
        assert_eq!(sizes(&limited), [20, 10, 5]);
        let ample = divide(
            parts(60, None, Some(30)),
            &split(false, Some(1000), 10, Some(1000)),
        )
        .unwrap();
        assert_eq!(sizes(&ample), [50, 10, 30]);
    }

    #[test]
    fn a_given_validation_part_is_used_up_to_the_requested_size() {
        let cut = |n| divide(parts(60, Some(12), Some(30)), &split(false, None, n, None)).unwrap();
        assert_eq!(sizes(&cut(10)), [60, 10, 30]);
        assert_eq!(sizes(&cut(100)), [60, 12, 30]);
        assert!(
            texts(&cut(10).validation)
                .iter()
                .all(|text| text.starts_with("validation"))
        );
    }

    #[test]
    fn data_without_a_test_part_is_pooled() {
        let divided = divide(parts(100, None, None), &split(false, Some(60), 10, Some(20))).unwrap();
        assert_eq!(sizes(&divided), [60, 10, 20]);
        let more = divide(parts(100, None, None), &split(false, Some(90), 10, Some(20)));
        assert!(matches!(
            more,
            Err(DataError::TooFew {
                asked: 120,
                available: 100,
                ..
            })
        ));
    }

    #[test]
    fn data_sorted_by_label_is_shuffled_before_it_is_cut() {
        for join in [false, true] {
            let divided = divide(
                parts(2000, None, Some(2000)),
                &split(join, Some(200), 200, Some(200)),
            )
            .unwrap();
            for part in [&divided.train, &divided.validation, &divided.test] {
                let ones = part.iter().filter(|example| example.label == 1).count();
                assert!((70..130).contains(&ones), "{ones} of 200 have label 1");
            }
        }
    }

    #[test]
    fn the_order_depends_only_on_the_seed() {
        let order = |seed| {
            let split = Split {
                seed,
                ..split(false, Some(8), 2, Some(5))
            };
            divide(parts(20, None, Some(9)), &split).unwrap()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        // Golden value: the order must not change with the machine or with a dependency.
        let texts: Vec<_> = order(1).train.into_iter().map(|example| example.text).collect();
        assert_eq!(
            texts.join(", "),
            "train 15, train 8, train 5, train 2, train 7, train 13, train 11, train 18"
        );
    }
}
