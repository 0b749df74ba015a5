//! Support of a device for a number format.

/// How a device computes in a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// In hardware.
    Native,
    /// On values rounded to the format, in a wider one.
    Emulated,
    /// Not at all.
    Absent,
}

impl Support {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Absent => "absent",
        }
    }
}
