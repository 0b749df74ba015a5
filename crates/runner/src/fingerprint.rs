//! Fingerprint of this machine and this build.

use std::{env, fs, sync::OnceLock};

use mantissa_core::{Fingerprint, Gpu, open_own_program};

/// Reads the fingerprint. Values that the machine does not report are absent.
pub fn fingerprint(gpu: Option<Gpu>) -> Fingerprint {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Fingerprint {
        cpu: fs::read_to_string("/proc/cpuinfo")
            .ok()
            .and_then(|text| cpu_model(&text)),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_bytes: fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| memory_bytes(&text)),
        os: operating_system(),
        gpu,
        mantissa: env!("CARGO_PKG_VERSION").to_owned(),
        revision: revision(),
        program: program_hash(),
        burn: env!("MANTISSA_BURN").to_owned(),
        peer: None,
        dropout_masks: Some("pcg4d".to_owned()),
        build: if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        }
        .to_owned(),
    }
}

/// Returns the git revision: the variable `MANTISSA_REVISION`, or else the revision of the build.
fn revision() -> Option<String> {
    let built = || option_env!("MANTISSA_REVISION").map(str::to_owned);
    env::var("MANTISSA_REVISION")
        .ok()
        .filter(|revision| !revision.is_empty())
        .or_else(built)
}

/// Returns the hash of the executable of this process, computed once.
fn program_hash() -> Option<String> {
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    let hash = || {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(open_own_program().ok()?).ok()?;
        Some(hasher.finalize().to_hex()[..16].to_owned())
    };
    HASH.get_or_init(hash).clone()
}

/// Returns the model name of the first processor, with family and model on x86: many cloud machines report only `AMD
/// EPYC`.
fn cpu_model(text: &str) -> Option<String> {
    let name = field(text, "model name")?;
    Some(match (field(text, "cpu family"), field(text, "model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name,
    })
}

/// Returns the value of a line like `model name : AMD EPYC`.
fn field(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines
        .filter(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned());
    values.next()
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kibibytes: u64 = field(meminfo, "MemTotal")?
        .strip_suffix(" kB")?
        .trim()
        .parse()
        .ok()?;
    Some(kibibytes * 1024)
}

fn operating_system() -> String {
    let name = fs::read_to_string("/etc/os-release").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(line.trim_matches('"').to_owned())
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .map(|text| text.trim().to_owned());
    let mut os = name.unwrap_or_else(|| env::consts::OS.to_owned());
    if let Some(kernel) = kernel {
        os = format!("{os}, kernel {kernel}");
    }
    format!("{os}, {}", env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_model_is_that_of_the_first_processor() {
        let text = "processor\t: 0\nmodel name\t: A 9000\n\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(cpu_model(text).as_deref(), Some("A 9000"));
        assert_eq!(field(text, "flags"), None);
    }

    #[test]
    fn cpus_with_the_same_name_differ_in_family_and_model() {
        let cpu_with = |family: u32, model: u32| {
            let text = format!("cpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: AMD EPYC\n");
            cpu_model(&text).unwrap()
        };
        assert_eq!(cpu_with(25, 17), "AMD EPYC (family 25, model 17)");
        assert_ne!(cpu_with(25, 17), cpu_with(26, 2));
    }

    #[test]
    fn meminfo_is_converted_to_bytes() {
        assert_eq!(
            memory_bytes("MemTotal:       16 kB\nMemFree: 1 kB\n"),
            Some(16384)
        );
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_fingerprint_contains_the_version_of_burn() {
        let fingerprint = fingerprint(None);
        assert!(fingerprint.burn.starts_with("0.22"), "{}", fingerprint.burn);
        assert!(fingerprint.cores >= 1);
    }
}
