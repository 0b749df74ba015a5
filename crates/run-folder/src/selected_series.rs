//! Deserializes only the selected series of a record's samples. A record may have millions of samples, but a figure needs few.

use std::{cell::Cell, fmt, io, marker::PhantomData};

use mantissa_core::{Samples, Series, SeriesName};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// Maximum number of values in all selected series together. A file of
/// [`MAX_SAMPLES_BYTES`](mantissa_core::MAX_SAMPLES_BYTES) contains about as many, because a measured value takes at
/// least ten characters.
const MAX_NUMBERS: usize = 6 << 20;
/// Number of values that take as much memory as an empty series. Each series counts as this many additional values.
const NUMBERS_PER_SERIES: usize = 16;

/// Selection of the samples to read.
#[derive(Debug, Clone, Copy)]
pub struct SampleSelection<'n> {
    series: &'n [SeriesName],
    ranges: bool,
    staleness: bool,
}

impl<'n> SampleSelection<'n> {
    /// Value ranges of tensors, and no series.
    pub const RANGES: SampleSelection<'static> = SampleSelection {
        ranges: true,
        ..SampleSelection::series(&[])
    };
    /// Numbers of gradients by staleness, and no series.
    pub const STALENESS: SampleSelection<'static> = SampleSelection {
        staleness: true,
        ..SampleSelection::series(&[])
    };

    /// Selects series.
    pub const fn series(series: &'n [SeriesName]) -> Self {
        Self {
            series,
            ranges: false,
            staleness: false,
        }
    }
}

/// Deserializer for [`Samples`]. Series whose name is not selected keep only their last `x` (step or time). Series with
/// unknown names, which a later version may write, are skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SamplesSeed<'n> {
    selection: SampleSelection<'n>,
    /// Number of values that may still be read.
    left: &'n Cell<usize>,
}

impl SamplesSeed<'_> {
    fn selects(&self, name: &str) -> bool {
        self.selection
            .series
            .iter()
            .any(|selected| selected.name() == name)
    }

    fn consume<E: Error>(&self, numbers: usize) -> Result<(), E> {
        consume(self.left, numbers)
    }
}

/// Subtracts from the number of values that may still be read.
fn consume<E: Error>(left: &Cell<usize>, numbers: usize) -> Result<(), E> {
    match left.get().checked_sub(numbers) {
        Some(remaining) => left.set(remaining),
        None => {
            return Err(E::custom(format!(
                "the samples have more than {MAX_NUMBERS} numbers, the maximum"
            )));
        }
    }
    Ok(())
}

/// Reads the samples of a record from JSON. See [`SamplesSeed`].
pub(crate) fn read(json: impl io::Read, selection: SampleSelection<'_>) -> serde_json::Result<Samples> {
    let left = Cell::new(MAX_NUMBERS);
    let mut json = serde_json::Deserializer::from_reader(json);
    let samples = SamplesSeed {
        selection,
        left: &left,
    }
    .deserialize(&mut json)?;
    json.end()?;
    Ok(samples)
}

impl<'de> DeserializeSeed<'de> for SamplesSeed<'_> {
    type Value = Samples;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Samples, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SamplesSeed<'_> {
    type Value = Samples;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the samples of a cell")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Samples, A::Error> {
        let mut samples = Samples::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "series" => samples.series = map.next_value_seed(SeriesListSeed(self))?,
                "trials" => samples.trials = map.next_value()?,
                "test_correct" => samples.test_correct = map.next_value()?,
                "ranges" if self.selection.ranges => samples.ranges = map.next_value()?,
                "staleness" if self.selection.staleness => {
                    samples.staleness = map.next_value_seed(NumbersSeed::new(self.left))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(samples)
    }
}

struct SeriesListSeed<'n>(SamplesSeed<'n>);

impl<'de> DeserializeSeed<'de> for SeriesListSeed<'_> {
    type Value = Vec<Series>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Series>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SeriesListSeed<'_> {
    type Value = Vec<Series>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Series>, A::Error> {
        let mut series = Vec::new();
        while let Some(one) = list.next_element_seed(SeriesSeed(self.0))? {
            self.0.consume::<A::Error>(NUMBERS_PER_SERIES)?;
            series.extend(one);
        }
        Ok(series)
    }
}

struct SeriesSeed<'n>(SamplesSeed<'n>);

impl<'de> DeserializeSeed<'de> for SeriesSeed<'_> {
    type Value = Option<Series>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Series>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SeriesSeed<'_> {
    type Value = Option<Series>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Series>, A::Error> {
        let (mut unit, mut x_name) = (String::new(), String::new());
        let (mut x, mut y) = (vec![], vec![]);
        let mut name: Option<String> = None;
        while let Some(key) = map.next_key::<String>()? {
            // The name is normally the first key. Values before it are read completely, because the series may be selected.
            let chosen = name.as_deref().is_none_or(|name| self.0.selects(name));
            match key.as_str() {
                "name" => name = Some(map.next_value()?),
                "unit" => unit = map.next_value()?,
                "x_name" => x_name = map.next_value()?,
                "x" if chosen => x = map.next_value_seed(NumbersSeed::new(self.0.left))?,
                "x" => x.extend(map.next_value_seed(LastNumberSeed)?),
                "y" if chosen => y = map.next_value_seed(NumbersSeed::new(self.0.left))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let name = name.ok_or_else(|| A::Error::missing_field("name"))?;
        let (x_count, y_count) = (x.len(), y.len());
        if self.0.selects(&name) && x_count != y_count {
            return Err(A::Error::custom(format!(
                "series `{name}` has {y_count} y values for {x_count} x values"
            )));
        }
        Ok(name.parse().ok().map(|name| Series {
            name,
            unit,
            x_name,
            x,
            y,
        }))
    }
}

/// Deserializer for a list of numbers. Fails if more than `left` values are read.
struct NumbersSeed<'n, T> {
    left: &'n Cell<usize>,
    number: PhantomData<T>,
}

impl<'n, T> NumbersSeed<'n, T> {
    fn new(left: &'n Cell<usize>) -> Self {
        Self {
            left,
            number: PhantomData,
        }
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for NumbersSeed<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for NumbersSeed<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = list.next_element()? {
            consume::<A::Error>(self.left, 1)?;
            numbers.push(number);
        }
        Ok(numbers)
    }
}

/// Deserializer for the last number of a list.
struct LastNumberSeed;

impl<'de> DeserializeSeed<'de> for LastNumberSeed {
    type Value = Option<f64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<f64>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for LastNumberSeed {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<f64>, A::Error> {
        let mut last = None;
        while let Some(number) = list.next_element()? {
            last = Some(number);
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, names: &[SeriesName]) -> Samples {
        super::read(json.as_bytes(), SampleSelection::series(names)).unwrap()
    }

    #[test]
    fn the_limit_of_numbers_applies_to_all_series_together() {
        let list = format!("[{}0]", "0,".repeat(MAX_NUMBERS / 4));
        let series =
            |name: &str| format!(r#"{{"name":"{name}","unit":"s","x_name":"x","x":{list},"y":{list}}}"#);
        let json = format!(
            r#"{{"series":[{},{}]}}"#,
            series("train_loss"),
            series("loss_scale")
        );
        assert!(super::read(json.as_bytes(), SampleSelection::series(&[SeriesName::TrainLoss])).is_ok());
        let error = super::read(
            json.as_bytes(),
            SampleSelection::series(&[SeriesName::TrainLoss, SeriesName::LossScale]),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("more than 6291456 numbers"), "{error}");
    }

    #[test]
    fn staleness_is_read_only_if_selected_and_its_length_is_limited() {
        let samples = Samples {
            staleness: vec![70, 0, 930],
            ..Samples::default()
        };
        let json = serde_json::to_string(&samples).unwrap();
        let read = |json: &str, selection| super::read(json.as_bytes(), selection);
        assert_eq!(read(&json, SampleSelection::STALENESS).unwrap(), samples);
        for selection in [SampleSelection::RANGES, SampleSelection::series(&[])] {
            assert_eq!(read(&json, selection).unwrap(), Samples::default());
        }
        let json = format!(r#"{{"series":[],"staleness":[{}0]}}"#, "0,".repeat(MAX_NUMBERS));
        let error = read(&json, SampleSelection::STALENESS).unwrap_err().to_string();
        assert!(error.contains("more than 6291456 numbers"), "{error}");
    }

    #[test]
    fn series_that_are_not_selected_keep_only_their_last_x() {
        let mut samples = Samples::default();
        for name in [SeriesName::ReadingSeconds, SeriesName::PowerWatts] {
            let mut series = Series::new(name);
            [1.0, f64::NAN, 3.0]
                .iter()
                .for_each(|value| series.push(2.0 * value, *value));
            samples.series.push(series);
        }
        samples.series.iter_mut().for_each(|series| series.x[1] = 4.0);
        samples.test_correct = Some("101".into());
        let json = serde_json::to_string(&samples).unwrap();
        assert_eq!(
            read(&json, &[SeriesName::ReadingSeconds, SeriesName::PowerWatts]),
            samples
        );
        let chosen = read(&json, &[SeriesName::ReadingSeconds]);
        assert_eq!(chosen.series[0], samples.series[0]);
        assert_eq!(
            (chosen.series[1].x.as_slice(), chosen.series[1].y.len()),
            ([6.0].as_slice(), 0)
        );
        assert_eq!(chosen.series[1].x_name, "seconds");
        assert_eq!(chosen.test_correct.as_deref(), Some("101"));
    }

    #[test]
    fn series_of_a_newer_version_are_skipped() {
        let json = r#"{"series":[{"name":"gradient_norm","unit":"1","x_name":"x","x":[1.0],"y":[2.0]}]}"#;
        assert_eq!(read(json, &[SeriesName::TrainLoss]), Samples::default());
    }

    #[test]
    fn a_malformed_series_is_an_error() {
        assert!(super::read(&br#"{"series":[{"unit":"s"}]}"#[..], SampleSelection::series(&[])).is_err());
        let uneven = br#"{"series":[{"name":"train_loss","unit":"s","x_name":"x","x":[1.0],"y":[1.0,2.0]}]}"#;
        let error = super::read(&uneven[..], SampleSelection::series(&[SeriesName::TrainLoss]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("2 y values for 1 x values"), "{error}");
        assert!(super::read(&uneven[..], SampleSelection::series(&[])).is_ok());
    }
}
