//! Format of the binary version of CIFAR-10: sizes, classes and file names.

use super::images::CHANNELS;

/// Edge of CIFAR images, in pixels.
pub(super) const CIFAR_EDGE: usize = 32;
/// Size of a CIFAR-10 record in bytes: a label and three color planes.
pub(super) const CIFAR_RECORD: usize = 1 + CHANNELS * CIFAR_EDGE * CIFAR_EDGE;
/// Files of the CIFAR-10 archive that are not batches.
pub(super) const CIFAR_DOCUMENTS: [&str; 2] = ["batches.meta.txt", "readme.html"];
/// Classes of CIFAR-10.
pub(super) const CIFAR_CLASSES: u32 = 10;

/// Returns true if the file name is that of a binary batch of CIFAR-10.
pub(super) fn has_batch_name(name: &str) -> bool {
    let name = name.to_lowercase();
    name.ends_with(".bin") && (name.starts_with("data_batch") || name.starts_with("test_batch"))
}
