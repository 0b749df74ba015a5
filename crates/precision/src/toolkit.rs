//! Checks that NVRTC and the headers of the CUDA toolkit, which compile kernels, are compatible with each other and with the driver.

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
};

/// A version of CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: i32,
    minor: i32,
}

impl Version {
    /// Converts CUDA's version number, 1000 · major + 10 · minor.
    const fn from_number(number: i32) -> Self {
        Self {
            major: number / 1000,
            minor: number % 1000 / 10,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Checks that the headers of the toolkit exist, and that the driver accepts the output of NVRTC with them.
///
/// # Errors
/// If a part is missing or versions are incompatible, with a hint.
pub(crate) fn check_toolkit() -> Result<(), String> {
    let folder = folder();
    let include = folder.join("include");
    if !include.join("cuda_fp16.h").exists() {
        return Err(format!(
            "cannot find the CUDA headers in `{}`: set `CUDA_PATH` to the CUDA toolkit",
            include.display()
        ));
    }
    check_versions(driver(), compiler(), headers(&include), &include)
}

/// Returns the folder in which cubecl looks for headers.
fn folder() -> PathBuf {
    let fixed = ["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from);
    env::var_os("CUDA_PATH")
        .map(PathBuf::from)
        .or_else(|| fixed.into_iter().find(|folder| folder.exists()))
        .unwrap_or_else(|| "/usr".into())
}

/// Checks that the versions are compatible. Unknown versions are accepted.
fn check_versions(
    driver: Option<Version>,
    compiler: Option<Version>,
    headers: Option<Version>,
    include: &Path,
) -> Result<(), String> {
    if let (Some(driver), Some(compiler)) = (driver, compiler)
        && compiler > driver
    {
        return Err(format!(
            "the NVIDIA driver supports CUDA {driver} and cannot load kernels of the newer run-time compiler (libnvrtc {compiler}): update \
             the driver, or put the libraries of a toolkit of version {driver} or older first on `LD_LIBRARY_PATH`"
        ));
    }
    if let (Some(compiler), Some(headers)) = (compiler, headers)
        && compiler.major != headers.major
    {
        return Err(format!(
            "the CUDA headers in `{}` are of version {headers}, but the run-time compiler is libnvrtc {compiler}: set `CUDA_PATH` to the \
             toolkit that the compiler belongs to",
            include.display()
        ));
    }
    Ok(())
}

/// Returns the newest version whose kernels the driver loads.
fn driver() -> Option<Version> {
    let mut number = 0;
    // SAFETY: the library is loaded, and the call writes one integer.
    #[expect(unsafe_code, reason = "the CUDA driver has a C interface")]
    let status = unsafe { cudarc::driver::sys::cuDriverGetVersion(&mut number) };
    status.result().ok().map(|()| Version::from_number(number))
}

/// Returns the version of NVRTC.
fn compiler() -> Option<Version> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is loaded, and the call writes two integers.
    #[expect(unsafe_code, reason = "NVRTC has a C interface")]
    let status = unsafe { cudarc::nvrtc::sys::nvrtcVersion(&mut major, &mut minor) };
    status.result().ok().map(|()| Version { major, minor })
}

/// Returns the version of the headers.
fn headers(include: &Path) -> Option<Version> {
    parse_version(&fs::read_to_string(include.join("cuda.h")).ok()?)
}

/// Parses the version that the text of `cuda.h` defines.
fn parse_version(text: &str) -> Option<Version> {
    let number = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("#define CUDA_VERSION "))?;
    number.trim().parse().ok().map(Version::from_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_header() {
        assert_eq!(parse_version("/* CUDA_VERSION */\n"), None);
        let version = parse_version("/* */\n#define CUDA_VERSION 12040\n").unwrap();
        assert_eq!(version.to_string(), "12.4");
    }
}
