//! Layers that a mixed setting keeps in f32.

/// Which ones they are.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    /// Those of these patterns: each is a name, or its first parts, with `*` for any one part.
    Matching(Vec<String>),
    /// All but this one, and with them whatever computes without weights.
    AllBut(String),
}

impl Default for Kept {
    fn default() -> Self {
        Self::Matching(vec![])
    }
}

impl Kept {
    /// The patterns of a setting.
    ///
    /// # Errors
    /// A pattern that is the name of no layer: it would keep nothing, and the record would say that it did.
    pub(crate) fn new(patterns: &[String], layers: &[String]) -> Result<Self, String> {
        let unknown = patterns
            .iter()
            .find(|pattern| !layers.iter().any(|layer| matches(pattern, layer)));
        match unknown {
            Some(pattern) => Err(format!(
                "`keep_f32` names no layer by `{pattern}`; there are `{}`",
                layers.join("`, `")
            )),
            None => Ok(Self::Matching(patterns.to_vec())),
        }
    }

    /// Whether a layer is among them.
    pub(crate) fn contains(&self, layer: &str) -> bool {
        match self {
            Self::Matching(patterns) => patterns.iter().any(|pattern| matches(pattern, layer)),
            Self::AllBut(other) => layer != other,
        }
    }
}

fn matches(pattern: &str, layer: &str) -> bool {
    let mut parts = layer.split('.');
    pattern
        .split('.')
        .all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_its_first_parts_with_any_part_starred() {
        let layer = "transformer.layer.1.ffn.lin1";
        for pattern in [
            layer,
            "transformer",
            "transformer.layer.1",
            "*.layer.*.ffn",
            "transformer.*.*.*.lin1",
        ] {
            assert!(matches(pattern, layer), "{pattern}");
        }
        for pattern in [
            "transformer.layer.2",
            "layer.1",
            "transformer.layer.1.f",
            "transformer.layer.1.ffn.lin1.weight",
        ] {
            assert!(!matches(pattern, layer), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_of_no_layer_is_refused_with_the_layers() {
        let layers = ["pre_classifier", "classifier"].map(str::to_owned);
        let error = Kept::new(&["clasifier".to_owned()], &layers).unwrap_err();
        assert_eq!(
            error,
            "`keep_f32` names no layer by `clasifier`; there are `pre_classifier`, `classifier`"
        );
        let kept = Kept::new(&["classifier".to_owned()], &layers).unwrap();
        assert!(kept.contains("classifier") && !kept.contains("pre_classifier"));
    }
}
