//! Samples of which only some series are read whole: a record may have millions of samples, and a figure needs few.

use std::fmt;

use mantissa_core::{Samples, Series};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Reads [`Samples`]. Series whose name is not among these keep their last `x` and nothing else; what the formats did to values
/// is read where `ranges` is among them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen<'n>(pub &'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Chosen<'_> {
    type Value = Samples;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Samples, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Chosen<'_> {
    type Value = Samples;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the samples of a cell")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Samples, A::Error> {
        let mut samples = Samples::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "series" => samples.series = map.next_value_seed(List(self))?,
                "trials" => samples.trials = map.next_value()?,
                "test_correct" => samples.test_correct = map.next_value()?,
                "ranges" if self.0.contains(&"ranges") => samples.ranges = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(samples)
    }
}

struct List<'n>(Chosen<'n>);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Vec<Series>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Series>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Vec<Series>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Series>, A::Error> {
        let mut series = Vec::new();
        while let Some(one) = list.next_element_seed(One(self.0))? {
            series.push(one);
        }
        Ok(series)
    }
}

struct One<'n>(Chosen<'n>);

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Series;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Series, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Series;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Series, A::Error> {
        let mut series = Series::new("", "", "");
        let mut name: Option<String> = None;
        while let Some(key) = map.next_key::<String>()? {
            // The name is written first; if it ever is not, the series is read whole.
            let chosen = name.as_deref().is_none_or(|name| self.0.0.contains(&name));
            match key.as_str() {
                "name" => name = Some(map.next_value()?),
                "unit" => series.unit = map.next_value()?,
                "x_name" => series.x_name = map.next_value()?,
                "x" if chosen => series.x = map.next_value()?,
                "x" => series.x.extend(map.next_value_seed(Last)?),
                "y" if chosen => series.y = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        series.name = name.ok_or_else(|| A::Error::missing_field("name"))?;
        Ok(series)
    }
}

/// The last number of a list.
struct Last;

impl<'de> DeserializeSeed<'de> for Last {
    type Value = Option<f64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<f64>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Last {
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

    fn read(json: &str, names: &[&str]) -> Samples {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        Chosen(names).deserialize(&mut deserializer).unwrap()
    }

    #[test]
    fn series_that_are_not_chosen_keep_their_last_place_alone() {
        let mut samples = Samples::default();
        for name in ["step_seconds", "power_watts"] {
            let mut series = Series::new(name, "s", "seconds");
            [1.0, f64::NAN, 3.0]
                .iter()
                .for_each(|value| series.push(2.0 * value, *value));
            samples.series.push(series);
        }
        samples.series.iter_mut().for_each(|series| series.x[1] = 4.0);
        samples.test_correct = Some("101".into());
        let json = serde_json::to_string(&samples).unwrap();
        assert_eq!(read(&json, &["step_seconds", "power_watts"]), samples);
        let chosen = read(&json, &["step_seconds"]);
        assert_eq!(chosen.series[0], samples.series[0]);
        assert_eq!(
            (chosen.series[1].x.as_slice(), chosen.series[1].y.len()),
            ([6.0].as_slice(), 0)
        );
        assert_eq!(chosen.series[1].x_name, "seconds");
        assert_eq!(chosen.test_correct.as_deref(), Some("101"));
    }

    #[test]
    fn what_is_no_series_is_an_error() {
        let mut deserializer = serde_json::Deserializer::from_str(r#"{"series":[{"unit":"s"}]}"#);
        assert!(Chosen(&[]).deserialize(&mut deserializer).is_err());
    }
}
