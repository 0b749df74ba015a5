//! Reads of regular files with a maximum size, and writes that do not follow symbolic links, for folders from untrusted sources.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, ErrorKind, Read, Write as _},
    path::{Component, Path, PathBuf},
};

/// Maximum size of a vocabulary, tokenizer or model configuration, in bytes.
pub const MAX_CONFIGURATION_BYTES: u64 = 256 << 20;
/// Maximum size of a suite, in bytes.
pub const MAX_SUITE_BYTES: u64 = 4 << 20;
/// Maximum length of a line of `records.jsonl`, in bytes.
pub const MAX_RECORD_BYTES: u64 = 16 << 20;
/// Maximum size of the decompressed `samples.json.gz`, in bytes.
pub const MAX_SAMPLES_BYTES: u64 = 64 << 20;

/// Opens a regular file for reading. Devices and pipes are rejected because they may never end.
///
/// # Errors
/// The file is not a regular file, or an I/O error.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with_length(path).map(|(file, _)| file)
}

/// Opens a regular file of at most `limit` bytes for reading.
///
/// # Errors
/// The file is larger or not a regular file, or an I/O error.
pub fn open_limited(path: &Path, limit: u64) -> io::Result<File> {
    match open_with_length(path)? {
        (_, length) if length > limit => Err(too_large(limit)),
        (file, _) => Ok(file),
    }
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// The file is larger or not a regular file, or an I/O error.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    match open_with_length(path)? {
        (_, length) if length > limit => Err(too_large(limit)),
        (file, length) => read_whole(file, length),
    }
}

/// Reads a regular file.
///
/// # Errors
/// The file is not a regular file, or an I/O error.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let (file, length) = open_with_length(path)?;
    read_whole(file, length)
}

fn read_whole(file: File, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    // The additional byte detects the end of the file without another allocation.
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX).saturating_add(1))?;
    // `File::read_to_end` would query the file length a second time; `Take` does not.
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text file or a pipe of at most `limit` bytes. A pipe without a writer is empty.
///
/// # Errors
/// A longer text, text that is not UTF-8, or an I/O error.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let file = open_at_once(path)?;
    #[cfg(unix)]
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
    let mut text = String::new();
    Bounded::new(file, limit).read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a file without waiting for the writer of a pipe.
fn open_at_once(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    options.read(true).open(path)
}

/// Opens a regular file, and returns its length in bytes.
fn open_with_length(path: &Path) -> io::Result<(File, u64)> {
    let file = open_at_once(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata.len())),
        false => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

/// Reads the next line with its line end into `line`, which is cleared first. Returns the number of bytes read.
///
/// # Errors
/// [`ErrorKind::InvalidData`] for a line of more than `limit` bytes, or an I/O error.
pub fn read_line(source: &mut impl BufRead, line: &mut Vec<u8>, limit: u64) -> io::Result<usize> {
    line.clear();
    let read = source.take(limit + 1).read_until(b'\n', line)?;
    match line.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(read),
    }
}

fn too_large(limit: u64) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("it has more than {limit} bytes, the maximum size"),
    )
}

/// Opens the executable of this process, even if the file at its path was replaced since the start.
///
/// # Errors
/// An I/O error.
pub fn open_own_program() -> io::Result<File> {
    match cfg!(target_os = "linux") {
        true => File::open("/proc/self/exe"),
        false => File::open(std::env::current_exe()?),
    }
}

/// Returns true if the error reports an exhausted resource: disk space, memory, processes, threads or open files.
pub fn is_exhausted(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let file_limits = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        if error
            .raw_os_error()
            .is_some_and(|code| file_limits.contains(&code))
        {
            return true;
        }
    }
    matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::FileTooLarge
            | ErrorKind::WouldBlock
            | ErrorKind::OutOfMemory
    )
}

/// Reader that fails if its source has more than a number of bytes.
#[derive(Debug)]
pub struct Bounded<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Bounded<R> {
    /// Limits `inner` to `limit` bytes.
    pub fn new(inner: R, limit: u64) -> Self {
        Self {
            inner,
            left: limit,
            limit,
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !buffer.is_empty() {
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(too_large(self.limit)),
            };
        }
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.inner.read(&mut buffer[..length])?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// Creates the folder `relative` below `root`, and `root` itself. Returns its path.
///
/// # Errors
/// A symbolic link below `root`, which could point elsewhere; a path outside of `root`; or an I/O error.
pub fn create_folder_below(root: &Path, relative: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(root)?;
    let mut folder = root.to_owned();
    for part in relative.components() {
        let Component::Normal(name) = part else {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "the path points outside of its folder",
            ));
        };
        folder.push(name);
        match fs::symlink_metadata(&folder) {
            Ok(metadata) if metadata.is_symlink() => {
                return Err(io::Error::new(
                    ErrorKind::InvalidInput,
                    format!(
                        "`{}` is a symbolic link; writes through symbolic links are not allowed",
                        folder.strip_prefix(root).unwrap_or(&folder).display()
                    ),
                ));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::create_dir(&folder) {
                // Another process created it in the meantime.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => created?,
            },
            Err(error) => return Err(error),
        }
    }
    Ok(folder)
}

/// File that replaces another file when it is complete. A symbolic link at the target path is replaced, not followed.
#[derive(Debug)]
pub struct Replacement {
    /// The incomplete file.
    pub file: File,
    part: PathBuf,
    path: PathBuf,
}

impl Replacement {
    /// Creates an empty file next to `path`.
    ///
    /// # Errors
    /// An I/O error.
    pub fn new(path: &Path) -> io::Result<Self> {
        // The name contains the process id, because other processes may write the same file at the same time.
        let part = path.with_added_extension(format!("{}.part", std::process::id()));
        if let Err(error) = fs::remove_file(&part)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&part)?;
        Ok(Self {
            file,
            part,
            path: path.to_owned(),
        })
    }

    /// Moves the file to its path.
    ///
    /// # Errors
    /// An I/O error, such as a folder at that path.
    pub fn finish(self) -> io::Result<()> {
        fs::rename(&self.part, &self.path)
    }
}

/// Writes a file atomically, and creates its parent folders. Writes directly to a device or a pipe; replaces a symbolic
/// link to a file.
///
/// # Errors
/// An I/O error.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Write directly to `/dev/stdout` even if it leads to a regular file: a replacement would remove the link.
    let is_system_path = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    if is_system_path || fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, bytes);
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut new = Replacement::new(path)?;
    new.file.write_all(bytes)?;
    new.finish()
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // The part file does not exist after `finish`.
        let _ = fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn bounded_readers_fail_only_beyond_their_limit() {
        let read = |limit| {
            let mut text = vec![];
            Bounded::new(&b"12345"[..], limit)
                .read_to_end(&mut text)
                .map(|_| text)
        };
        assert_eq!(read(5).unwrap(), b"12345");
        assert_eq!(read(6).unwrap(), b"12345");
        assert!(read(4).unwrap_err().to_string().contains("more than 4 bytes"));
    }

    #[test]
    fn lines_are_read_up_to_their_limit() {
        let mut source = &b"1234\n12345\n"[..];
        let mut line = b"before".to_vec();
        assert_eq!(read_line(&mut source, &mut line, 5).unwrap(), 5);
        assert_eq!(line, b"1234\n");
        let error = read_line(&mut source, &mut line, 5).unwrap_err();
        assert!(error.to_string().contains("more than 5 bytes"), "{error}");
    }

    #[test]
    fn symbolic_links_are_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("theirs"), "precious").unwrap();
        std::os::unix::fs::symlink(at("theirs"), at("page")).unwrap();
        let mut new = Replacement::new(&at("page")).unwrap();
        new.file.write_all(b"mine").unwrap();
        new.finish().unwrap();
        assert_eq!(fs::read(at("theirs")).unwrap(), b"precious");
        assert_eq!(fs::read(at("page")).unwrap(), b"mine");
        fs::hard_link(at("theirs"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("theirs"), at("soft")).unwrap();
        for link in ["hard", "soft"] {
            write_whole(&at(link), b"mine").unwrap();
            assert_eq!(fs::read(at(link)).unwrap(), b"mine");
            fs::remove_file(at(link)).unwrap();
        }
        assert_eq!(fs::read(at("theirs")).unwrap(), b"precious");
        write_whole(Path::new("/dev/null"), b"mine").unwrap();
        // An unfinished file is removed.
        drop(Replacement::new(&at("page")).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

        fs::create_dir(at("elsewhere")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("figures")).unwrap();
        let below = |relative: &str| create_folder_below(folder.path(), Path::new(relative));
        assert!(
            below("figures/a")
                .unwrap_err()
                .to_string()
                .contains("is a symbolic link")
        );
        assert!(below("../out").is_err() && below("/out").is_err());
        assert_eq!(below("cells/1").unwrap(), at("cells/1"));
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0);
    }

    #[test]
    fn only_regular_files_are_opened() {
        assert!(open_regular(Path::new("/dev/zero")).is_err());
        assert!(open_regular(Path::new("/")).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "text").unwrap();
        assert!(open_regular(file.path()).is_ok());
        assert_eq!(read_regular(file.path()).unwrap(), b"text");
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let created = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(created.success());
        // The pipe has no writer.
        assert!(open_regular(&pipe).is_err() && read_regular(&pipe).is_err());
        assert_eq!(read_text(&pipe, 4).unwrap(), "");
        assert_eq!(read_text(file.path(), 4).unwrap(), "text");
        assert!(read_text(file.path(), 3).is_err() && read_text(Path::new("/dev/zero"), 3).is_err());
    }
}
