//! Support of a device for a number format.

/// Support of a device for a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// The hardware computes in the format.
    Native,
    /// Values are rounded to the format and computed in a wider one.
    Emulated,
    /// The format is not supported.
    Absent,
}

impl Support {
    /// Returns the name used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Absent => "absent",
        }
    }
}
