//! Loading of the NVML library.

use std::{ffi::OsStr, path::Path, sync::OnceLock};

use nvml_wrapper::{Nvml, error::NvmlError};

/// File names of the library. Containers often have only the versioned one.
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// NVML, loaded once and never unloaded: a call into a faulty driver may still be running when the process exits.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    pub(super) nvml: &'static Nvml,
}

impl Library {
    /// Returns the library of this machine.
    ///
    /// # Errors
    /// Reason why NVML is not available.
    pub fn of_this_machine() -> Result<Self, &'static str> {
        static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
        let find = || {
            load(OsStr::new(NAMES[0]))
                .or_else(|_| load(OsStr::new(NAMES[1])))
                // If neither file can be loaded, report the error of the first one.
                .or_else(|_| load(OsStr::new(NAMES[0])))
                .map_err(|error| reason(&error))
        };
        FOUND.get_or_init(find).as_ref().copied().map_err(String::as_str)
    }

    /// Loads the library from a file, e.g. the simulated NVML of the tests. The library is never unloaded.
    ///
    /// # Errors
    /// Reason why the library is not available.
    pub fn at(path: &Path) -> Result<Self, String> {
        load(path.as_os_str()).map_err(|error| reason(&error))
    }
}

fn load(name: &OsStr) -> Result<Library, NvmlError> {
    let nvml = Nvml::builder().lib_path(name).init()?;
    Ok(Library {
        nvml: Box::leak(Box::new(nvml)),
    })
}

/// Returns the reason why NVML is not available; `None` if it is available.
pub fn unavailable() -> Option<&'static str> {
    Library::of_this_machine().err()
}

/// Formats an error for a record, without paths of the machine.
pub(super) fn reason(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => format!("library `{}` not found", NAMES[0]),
        NvmlError::FailedToLoadSymbol(_) => "the driver does not have this function".into(),
        NvmlError::UnexpectedVariant(code) => format!("NVML error {code}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_missing_library_omits_the_path() {
        let missing = Library::at(Path::new("/no/such/folder/libnvidia-ml.so.1")).unwrap_err();
        assert_eq!(missing, "library `libnvidia-ml.so.1` not found");
    }
}
