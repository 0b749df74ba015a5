//! Splits examples into training, validation and test parts.

use mantissa_core::Split;
use rand::seq::SliceRandom;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::DataError;

/// Examples in the parts that the data set itself defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PredefinedSplits<T> {
    pub train: Vec<T>,
    pub validation: Option<Vec<T>>,
    pub test: Option<Vec<T>>,
}

/// Examples in the requested parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Splits<T> {
    pub train: Vec<T>,
    pub validation: Vec<T>,
    pub test: Vec<T>,
}

/// Parts of a data set to load.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestedSplits {
    /// Training, validation and test parts, as the [`Split`] defines.
    TrainAndTest(Split),
    /// Only a test set for a trained model, with at most this many examples.
    Test(Option<u32>),
}

impl RequestedSplits {
    /// Selects the requested examples.
    pub(super) fn select<T>(&self, predefined: PredefinedSplits<T>) -> Result<Splits<T>, DataError> {
        match self {
            Self::TrainAndTest(split) => apply_split(predefined, split),
            Self::Test(limit) => {
                let test = test_set(predefined, *limit);
                if test.is_empty() {
                    return Err(DataError::TooFew {
                        what: "test",
                        requested: 1,
                        available: 0,
                    });
                }
                Ok(Splits {
                    train: vec![],
                    validation: vec![],
                    test,
                })
            }
        }
    }

    /// Returns a suffix for the name of the data set. If a test set is requested but the data has no test part, the suffix explains this. Otherwise
    /// it is empty.
    pub(super) fn name_suffix<T>(&self, predefined: &PredefinedSplits<T>) -> &'static str {
        match self {
            Self::Test(_) if predefined.test.is_some() => "",
            Self::Test(_) if predefined.validation.is_some() => ", its validation part",
            Self::Test(_) => ", which has no test part",
            Self::TrainAndTest(_) => "",
        }
    }
}

/// Returns the test set for a pretrained model: the test part, otherwise the validation part, otherwise all examples. If there are more
/// than `limit` examples, selects a fixed sample.
fn test_set<T>(predefined: PredefinedSplits<T>, limit: Option<u32>) -> Vec<T> {
    let PredefinedSplits {
        train,
        validation,
        test,
    } = predefined;
    let mut examples = test.or(validation).unwrap_or(train);
    if let Some(limit) = limit.filter(|limit| (*limit as usize) < examples.len()) {
        shuffle(&mut examples, 0, 2);
        examples.truncate(limit as usize);
    }
    examples
}

/// Splits examples into the requested training, validation and test parts. `test` is the test part of the data, if there is one. Also
/// returns a suffix for the name of the data set.
pub fn divided<T>(
    train: Vec<T>,
    test: Option<Vec<T>>,
    requested: &RequestedSplits,
) -> Result<([Vec<T>; 3], &'static str), DataError> {
    let predefined = PredefinedSplits {
        train,
        validation: None,
        test,
    };
    let suffix = requested.name_suffix(&predefined);
    let Splits {
        train,
        validation,
        test,
    } = requested.select(predefined)?;
    Ok(([train, validation, test], suffix))
}

/// Splits the examples as `split` defines. First shuffles every part with the seed of `split`, because files are often sorted by label.
///
/// If `join` is false and the data has a test part, the parts of the data are kept, and `train`, `validation` and `test` are upper limits
/// of their sizes. If the data has no validation part, exactly `validation` examples are taken from the training part.
///
/// If `join` is true or the data has no test part, all examples are pooled, and the parts get exactly the requested numbers of
/// examples from the pool.
pub(super) fn apply_split<T>(predefined: PredefinedSplits<T>, split: &Split) -> Result<Splits<T>, DataError> {
    let PredefinedSplits {
        mut train,
        validation,
        test,
    } = predefined;
    match (test, split.join) {
        (Some(mut test), false) => {
            shuffle(&mut train, split.seed, 0);
            shuffle(&mut test, split.seed, 2);
            let validation = match validation {
                Some(mut validation) => {
                    shuffle(&mut validation, split.seed, 1);
                    validation.truncate(split.validation as usize);
                    validation
                }
                None => split_off_end(&mut train, split.validation, "validation")?,
            };
            train.truncate(split.train.map_or(usize::MAX, |n| n as usize));
            test.truncate(split.test.map_or(usize::MAX, |n| n as usize));
            require_examples(Splits {
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

/// Divides the pool into test, validation and training examples. If either `train` or `test` is unset, that part gets the remaining
/// examples.
fn split_pool<T>(mut pool: Vec<T>, split: &Split) -> Result<Splits<T>, DataError> {
    let sizes = [split.train, Some(split.validation), split.test];
    let requested: u64 = sizes.into_iter().flatten().map(u64::from).sum();
    let available = pool.len() as u64;
    if requested > available {
        return Err(DataError::TooFew {
            what: "training, validation and test",
            requested,
            available,
        });
    }
    let test = match (split.train, split.test) {
        (None, None) => return Err(DataError::OpenSplit),
        (_, Some(test)) => test,
        (Some(_), None) => (available - requested) as u32,
    };
    let test = split_off_end(&mut pool, test, "test")?;
    let validation = split_off_end(&mut pool, split.validation, "validation")?;
    pool.truncate(split.train.map_or(usize::MAX, |n| n as usize));
    require_examples(Splits {
        train: pool,
        validation,
        test,
    })
}

/// Removes `n` examples from the end.
fn split_off_end<T>(from: &mut Vec<T>, n: u32, what: &'static str) -> Result<Vec<T>, DataError> {
    let remaining = from.len().checked_sub(n as usize).ok_or(DataError::TooFew {
        what,
        requested: n.into(),
        available: from.len() as u64,
    })?;
    Ok(from.split_off(remaining))
}

/// Returns an error if the training or test part is empty.
fn require_examples<T>(splits: Splits<T>) -> Result<Splits<T>, DataError> {
    for (what, part) in [("training", &splits.train), ("test", &splits.test)] {
        if part.is_empty() {
            return Err(DataError::TooFew {
                what,
                requested: 1,
                available: 0,
            });
        }
    }
    Ok(splits)
}

/// Shuffles a part. Each part has its own random stream, so its order does not depend on the sizes of other parts.
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

    fn parts(train: u32, validation: Option<u32>, test: Option<u32>) -> PredefinedSplits<Example> {
        PredefinedSplits {
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

    fn sizes<T>(splits: &Splits<T>) -> [usize; 3] {
        [splits.train.len(), splits.validation.len(), splits.test.len()]
    }

    fn texts<'a>(examples: impl IntoIterator<Item = &'a Example>) -> BTreeSet<&'a str> {
        examples
            .into_iter()
            .map(|example| example.text.as_str())
            .collect()
    }

    #[test]
    fn joined_split_parts_come_from_one_pool_without_overlap() {
        let splits = apply_split(
            parts(60, Some(10), Some(30)),
            &split(true, Some(70), 10, Some(20)),
        )
        .unwrap();
        assert_eq!(sizes(&splits), [70, 10, 20]);
        let all = texts(splits.train.iter().chain(&splits.validation).chain(&splits.test));
        assert_eq!(all.len(), 100);
        assert!(texts(&splits.test).iter().any(|text| text.starts_with("train")));
    }

    #[test]
    fn too_large_joined_split_error_has_both_sizes() {
        let error = apply_split(parts(60, None, Some(30)), &split(true, Some(80), 5, Some(10))).unwrap_err();
        let expected = "the split requests 95 training, validation and test examples, but the data has 90";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn unset_size_takes_the_remaining_examples() {
        let sizes_of = |train, test| {
            sizes(&apply_split(parts(60, None, Some(40)), &split(true, train, 10, test)).unwrap())
        };
        assert_eq!(sizes_of(None, Some(20)), [70, 10, 20]);
        assert_eq!(sizes_of(Some(70), None), [70, 10, 20]);
        let both = apply_split(parts(60, None, Some(40)), &split(true, None, 10, None));
        assert!(matches!(both, Err(DataError::OpenSplit)));
        let nothing = apply_split(parts(60, None, Some(40)), &split(true, Some(90), 10, None));
        assert!(matches!(nothing, Err(DataError::TooFew { what: "test", .. })));
    }

    #[test]
    fn predefined_parts_are_kept_and_validation_comes_from_training() {
        let splits = apply_split(parts(60, None, Some(30)), &split(false, None, 10, None)).unwrap();
        assert_eq!(sizes(&splits), [50, 10, 30]);
        assert_eq!(texts(&splits.test), texts(&sorted("test", 30)));
        let training = texts(splits.train.iter().chain(&splits.validation)).len();
        assert_eq!(training, 60);
        let error = apply_split(parts(60, None, Some(30)), &split(false, None, 61, None)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the split requests 61 validation examples, but the data has 60")
        );
        let error = apply_split(parts(60, None, Some(30)), &split(false, None, 60, None)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the split requests 1 training examples, but the data has 0")
        );
    }

    #[test]
    fn sizes_of_predefined_parts_are_upper_limits() {
        let limited = apply_split(parts(60, None, Some(30)), &split(false, Some(20), 10, Some(5))).unwrap();
        assert_eq!(sizes(&limited), [20, 10, 5]);
        let ample = apply_split(
            parts(60, None, Some(30)),
            &split(false, Some(1000), 10, Some(1000)),
        )
        .unwrap();
        assert_eq!(sizes(&ample), [50, 10, 30]);
    }

    #[test]
    fn predefined_validation_part_is_truncated_to_its_size() {
        let cut = |n| apply_split(parts(60, Some(12), Some(30)), &split(false, None, n, None)).unwrap();
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
        let splits = apply_split(parts(100, None, None), &split(false, Some(60), 10, Some(20))).unwrap();
        assert_eq!(sizes(&splits), [60, 10, 20]);
        let more = apply_split(parts(100, None, None), &split(false, Some(90), 10, Some(20)));
        assert!(matches!(
            more,
            Err(DataError::TooFew {
                requested: 120,
                available: 100,
                ..
            })
        ));
    }

    #[test]
    fn data_sorted_by_label_is_shuffled_before_it_is_cut() {
        for join in [false, true] {
            let splits = apply_split(
                parts(2000, None, Some(2000)),
                &split(join, Some(200), 200, Some(200)),
            )
            .unwrap();
            for part in [&splits.train, &splits.validation, &splits.test] {
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
            apply_split(parts(20, None, Some(9)), &split).unwrap()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        // The order must not change with the machine or with the version of a dependency.
        let texts: Vec<_> = order(1).train.into_iter().map(|example| example.text).collect();
        assert_eq!(
            texts.join(", "),
            "train 15, train 8, train 5, train 2, train 7, train 13, train 11, train 18"
        );
    }
}
