//! Comparison of machines and programs.

use mantissa_core::Fingerprint;

/// Returns true if two records can come from the same program on the same machine.
pub(crate) fn same_program_and_machine(one: &Fingerprint, other: &Fingerprint) -> bool {
    let gpus = one.gpu.as_ref().zip(other.gpu.as_ref());
    // The number of CPU cores is compared unless both sides have a GPU, which computes instead of the CPU.
    one.cpu == other.cpu
        && (gpus.is_some() || one.cores == other.cores)
        && gpus.is_none_or(|(one, other)| one.name == other.name && one.driver == other.driver)
        && one.build == other.build
        && one.peer == other.peer
        && same_program(one, other)
}

/// Returns true if the hashes of the program files are equal. If a hash is unknown, compares the Git revisions instead.
pub fn same_program(one: &Fingerprint, other: &Fingerprint) -> bool {
    match (&one.program, &other.program) {
        (Some(one), Some(other)) => one == other,
        _ => one.revision == other.revision,
    }
}

/// Describes a program: revision, build and hash, `0123456789ab (release, fedcba9876543210)`.
pub fn describe_program(fingerprint: &Fingerprint) -> String {
    let revision = fingerprint.revision.as_deref().unwrap_or("an unknown revision");
    let file = fingerprint.program.as_ref().map(|file| format!(", {file}"));
    format!("{revision} ({}{})", fingerprint.build, file.unwrap_or_default())
}
