//! Layers that a mixed setting keeps in f32.

/// Set of layers that are kept in f32.
#[derive(Debug, Clone)]
pub(crate) enum F32Layers {
    /// Layers that match one of these patterns. A pattern is a name or its first components, with `*` for any one component.
    Matching(Vec<String>),
    /// All layers but this one, including operations without weights.
    AllBut(String),
}

impl Default for F32Layers {
    fn default() -> Self {
        Self::Matching(vec![])
    }
}

impl F32Layers {
    /// Creates the set from the patterns of a setting.
    ///
    /// # Errors
    /// A pattern does not match any layer, so it would have no effect although the record lists it.
    pub(crate) fn new(patterns: &[String], layers: &[String]) -> Result<Self, String> {
        let unknown = patterns
            .iter()
            .find(|pattern| !layers.iter().any(|layer| matches(pattern, layer)));
        match unknown {
            Some(pattern) => Err(format!(
                "`keep_f32` pattern `{pattern}` does not match any layer; the layers are `{}`",
                layers.join("`, `")
            )),
            None => Ok(Self::Matching(patterns.to_vec())),
        }
    }

    /// Returns true if a layer is in the set.
    pub(crate) fn contains(&self, layer: &str) -> bool {
        match self {
            Self::Matching(patterns) => patterns.iter().any(|pattern| matches(pattern, layer)),
            Self::AllBut(other) => layer != other,
        }
    }
}

fn matches(pattern: &str, layer: &str) -> bool {
    let mut parts = layer.split('.');
    pattern.split('.').all(|expected| {
        parts
            .next()
            .is_some_and(|part| expected == "*" || expected == part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_prefixes_and_wildcards() {
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
    fn unmatched_pattern_is_rejected_with_a_list_of_layers() {
        let layers = ["pre_classifier", "classifier"].map(str::to_owned);
        let error = F32Layers::new(&["clasifier".to_owned()], &layers).unwrap_err();
        assert_eq!(
            error,
            "`keep_f32` pattern `clasifier` does not match any layer; the layers are `pre_classifier`, `classifier`"
        );
        let kept = F32Layers::new(&["classifier".to_owned()], &layers).unwrap();
        assert!(kept.contains("classifier") && !kept.contains("pre_classifier"));
    }
}
