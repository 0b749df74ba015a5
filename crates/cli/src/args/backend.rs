//! Option `--backend`.

use mantissa_core::Backend;

/// A named backend, or the best one that is available.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BackendChoice {
    Auto,
    Named(Backend),
}

impl BackendChoice {
    pub(super) fn named(self) -> Option<Backend> {
        match self {
            Self::Named(backend) => Some(backend),
            Self::Auto => None,
        }
    }
}

impl std::str::FromStr for BackendChoice {
    type Err = mantissa_core::UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            Ok(Self::Auto)
        } else {
            let backend: Result<Backend, _> = text.parse();
            backend.map(Self::Named).map_err(|mut unknown: Self::Err| {
                unknown.valid.insert(0, "auto");
                unknown
            })
        }
    }
}
