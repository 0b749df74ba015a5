//! Atomic writes: a file is complete or absent, even if the power fails. The writes do not follow links.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{RunError, error::At as _};

/// Extension that is added to the name of a file until it is complete and synced.
const PART_EXTENSION: &str = "part";

/// Rejects anything but a regular file or a missing file. A symbolic link could lead out of the folder.
pub(crate) fn reject_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file, and links are not followed",
        )),
        _ => Ok(()),
    }
}

/// Rejects a file with several hard links, because a write would change a file elsewhere.
pub(super) fn reject_hard_links(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if fs::metadata(path).is_ok_and(|metadata| std::os::unix::fs::MetadataExt::nlink(&metadata) > 1) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it has several hard links, so writing would change another file\n  hint: copy the folder",
        ));
    }
    Ok(())
}

/// Creates an empty file next to `path`. The caller renames it to `path` once it is complete. Replaces an incomplete
/// file that an earlier process left there.
pub(super) fn create_part_file(path: &Path) -> io::Result<(PathBuf, File)> {
    let part = path.with_added_extension(PART_EXTENSION);
    if let Err(error) = fs::remove_file(&part)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let file = OpenOptions::new().write(true).create_new(true).open(&part)?;
    Ok((part, file))
}

/// Writes a file atomically, even if the power fails.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), RunError> {
    let write_and_rename = || {
        let (part, file) = create_part_file(path)?;
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.into_inner()?.sync_all()?;
        fs::rename(part, path)
    };
    write_and_rename().at(path)
}

/// Writes a JSON file like [`replace`].
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    replace(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })
}

/// Syncs the entries of a folder to disk. Only Unix can open folders as files.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(path)?.sync_all()
    } else {
        Ok(())
    }
}
