//! Seeded generator of labelled images, for machines without data.
//!
//! Each class has a pattern that is a sum of sine waves per color. An image is the pattern of its class with a random shift and amplitude, plus a
//! weaker pattern of another class and noise in every pixel.

use mantissa_core::{DataSource, Split};
use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use super::{
    Dataset, Images, RequestedSplits,
    images::{CHANNELS, Pixels},
};

/// Number of training images if a split does not set it.
pub const DEFAULT_TRAIN_IMAGES: u32 = 2_000;
/// Number of test images if a split does not set it.
pub const DEFAULT_TEST_IMAGES: u32 = 1_000;
/// Number of classes of synthetic images.
pub const CLASSES: u32 = 10;
/// Number of waves per color of a pattern.
const WAVES_PER_CHANNEL: usize = 3;
/// Maximum amplitude of the pattern of another class, relative to the minimum amplitude of the pattern of the image's class.
const MAX_DISTRACTION: f64 = 0.8;
/// Standard deviation of the pixel noise.
const NOISE: f64 = 0.5;
/// Random stream of the patterns. The random stream of an image is its index.
const PATTERN_STREAM: u64 = u64::MAX;

/// Generates the requested numbers of square synthetic images with this edge length. The same seed produces the same images.
pub fn synthetic_images(requested: &RequestedSplits, edge: usize) -> Dataset<Images> {
    let (train, validation, test, seed) = match requested {
        RequestedSplits::TrainAndTest(Split {
            train,
            validation,
            test,
            seed,
            ..
        }) => (train.unwrap_or(DEFAULT_TRAIN_IMAGES), *validation, *test, *seed),
        RequestedSplits::Test(limit) => (0, 0, *limit, 0),
    };
    let test = test.unwrap_or(DEFAULT_TEST_IMAGES);
    let patterns = generate_patterns(seed);
    let mut hasher = blake3::Hasher::new();
    let mut begin = 0;
    let mut part = |count: u32| {
        let images: Vec<_> = (begin..begin + u64::from(count))
            .into_par_iter()
            .map(|index| generate_image(&patterns, edge, &mut random_stream(seed, index)))
            .collect();
        begin += u64::from(count);
        let (mut labels, mut all) = (vec![], vec![]);
        for (label, values) in images {
            hasher.update(&label.to_le_bytes());
            for value in &values {
                hasher.update(&value.to_le_bytes());
            }
            labels.push(label);
            all.extend(values);
        }
        Images::new(Pixels::Values(all), edge, labels)
    };
    let (train, validation, test) = (part(train), part(validation), part(test));
    Dataset {
        train,
        validation,
        test,
        classes: CLASSES,
        source: DataSource {
            name: format!("synthetic images, seed {}", seed),
            hash: hasher.finalize().to_hex()[..16].to_owned(),
            synthetic: true,
            ..DataSource::default()
        },
    }
}

/// Returns the random number generator of an image, which is independent of all others.
fn random_stream(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// Sine wave over an image: cycles along each axis, phase and amplitude.
struct Wave {
    rows: f64,
    columns: f64,
    phase: f64,
    amplitude: f64,
}

impl Wave {
    /// Returns the value of the wave at a pixel of an image with this edge.
    fn at(&self, edge: f64, row: f64, column: f64) -> f64 {
        let turns = (self.rows * row + self.columns * column) / edge + self.phase;
        self.amplitude * (std::f64::consts::TAU * turns).sin()
    }
}

/// Waves of the pattern of every class and color.
type Patterns = Vec<[Vec<Wave>; CHANNELS]>;

fn generate_patterns(seed: u64) -> Patterns {
    let mut rng = random_stream(seed, PATTERN_STREAM);
    let mut wave = || Wave {
        rows: f64::from(rng.random_range(-4..=4)),
        columns: f64::from(rng.random_range(-4..=4)),
        phase: rng.random(),
        amplitude: rng.random_range(0.3..0.8),
    };
    (0..CLASSES)
        .map(|_| [(); CHANNELS].map(|()| (0..WAVES_PER_CHANNEL).map(|_| wave()).collect()))
        .collect()
}

/// Generates an image and its class.
fn generate_image(patterns: &Patterns, edge: usize, rng: &mut ChaCha8Rng) -> (i32, Vec<f32>) {
    /// Minimum amplitude of the pattern of the image's class.
    const MIN_AMPLITUDE: f64 = 0.5;
    let class = rng.random_range(0..CLASSES);
    let other = (class + rng.random_range(1..CLASSES)) % CLASSES;
    let mut random_shift = || {
        let shift = |rng: &mut ChaCha8Rng| f64::from(rng.random_range(-3..=3));
        (shift(rng), shift(rng))
    };
    let (own_shift, other_shift) = (random_shift(), random_shift());
    let strength = rng.random_range(MIN_AMPLITUDE..1.0);
    let distraction = rng.random_range(0.0..MAX_DISTRACTION * MIN_AMPLITUDE);
    let mut values = Vec::with_capacity(CHANNELS * edge * edge);
    let pattern = |waves: &[Wave], (down, right): (f64, f64), row: usize, column: usize| -> f64 {
        let (row, column) = (row as f64 + down, column as f64 + right);
        waves.iter().map(|wave| wave.at(edge as f64, row, column)).sum()
    };
    let waves_by_channel = patterns[class as usize].iter().zip(&patterns[other as usize]);
    for (own, other) in waves_by_channel {
        for row in 0..edge {
            for column in 0..edge {
                let noise: f64 = StandardNormal.sample(rng);
                let value = strength * pattern(own, own_shift, row, column)
                    + distraction * pattern(other, other_shift, row, column)
                    + NOISE * noise;
                values.push(value as f32);
            }
        }
    }
    (class.cast_signed(), values)
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    const EDGE: usize = 32;
    const VALUES: usize = CHANNELS * EDGE * EDGE;

    fn requested(train: u32, seed: u64) -> RequestedSplits {
        RequestedSplits::TrainAndTest(Split {
            join: false,
            train: Some(train),
            validation: 3,
            test: Some(5),
            seed,
        })
    }

    #[test]
    fn images_depend_only_on_the_seed() {
        let (first, again, other) = (
            synthetic_images(&requested(20, 1), EDGE),
            synthetic_images(&requested(20, 1), EDGE),
            synthetic_images(&requested(20, 2), EDGE),
        );
        assert_eq!(first.train, again.train);
        assert_eq!(first.source.hash, again.source.hash);
        assert_ne!(first.train, other.train);
        assert_ne!(first.source.hash, other.source.hash);
        assert_eq!(
            [first.train.len(), first.validation.len(), first.test.len()],
            [20, 3, 5]
        );
        assert!(first.source.synthetic);
        assert_eq!(
            synthetic_images(&RequestedSplits::Test(Some(7)), EDGE).test.len(),
            7
        );
    }

    #[test]
    fn a_batch_has_the_images_in_the_requested_order() {
        let images = synthetic_images(&requested(8, 1), EDGE).train;
        let batch = images.batch(&[5, 2]);
        assert_eq!(batch.labels, [images.labels()[5], images.labels()[2]]);
        assert_eq!(batch.values.len(), 2 * VALUES);
        assert_eq!(batch.values[VALUES..], images.batch(&[2]).values);
    }

    #[test]
    fn classes_are_balanced_and_pixels_have_about_unit_variance() {
        let images = synthetic_images(&requested(1000, 1), EDGE).train;
        for class in 0..CLASSES.cast_signed() {
            let share = images.labels().iter().filter(|label| **label == class).count();
            assert!((60..140).contains(&share), "class {class}: {share} of 1000");
        }
        let all: Vec<usize> = (0..images.len()).collect();
        let values = images.batch(&all).values;
        let n = values.len() as f64;
        let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        let square = values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / n;
        assert!(
            mean.abs() < 0.05 && (0.5..1.2).contains(&square.sqrt()),
            "mean {mean}, mean square {square}"
        );
    }
}
