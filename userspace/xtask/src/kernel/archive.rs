//! Writing an initramfs: a cpio archive in the format "newc" (Linux, Documentation/driver-api/early-userspace/
//! buffer-format.rst).

use std::collections::BTreeSet;
use std::path::{Component, Path};

use anyhow::{Context as _, Result, bail};

const FOLDER: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;

/// An archive in memory. Everything in it belongs to root, and every file may be executed.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: BTreeSet<String>,
}

impl Archive {
    /// Adds a file, behind the folders it lies in.
    ///
    /// # Errors
    /// If the path is not absolute and plain, or path or file are longer than the format can say.
    pub(crate) fn file(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        let folder = path.parent().with_context(|| format!("{} names no file", path.display()))?;
        self.folder(folder)?;
        self.entry(name(path)?, EXECUTABLE, content)
    }

    /// Adds a folder, behind those it lies in, unless it is there.
    ///
    /// # Errors
    /// As of [`Self::file`].
    pub(crate) fn folder(&mut self, path: &Path) -> Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        self.folder(parent)?;
        let name = name(path)?;
        if self.folders.insert(name.to_owned()) { self.entry(name, FOLDER, &[]) } else { Ok(()) }
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// None that can be met: the last entry has a short name.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.entry("TRAILER!!!", 0, &[])?;
        Ok(self.bytes)
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entries += 1;
        let size = u32::try_from(content.len()).with_context(|| format!("{name} is too long"))?;
        let name_size =
            u32::try_from(name.len() + 1).with_context(|| format!("the name {name} is too long"))?;
        // Inode, mode, user, group, links, time, size, device (2), device that it is (2), size of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
        Ok(())
    }

    /// Name and content end at a multiple of four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// An absolute path as it stands in an archive.
fn name(path: &Path) -> Result<&str> {
    let mut components = path.components();
    let absolute = components.next() == Some(Component::RootDir);
    if !absolute || components.any(|component| !matches!(component, Component::Normal(_))) {
        bail!("{} is not a plain absolute path", path.display());
    }
    path.to_str()
        .map(|path| path.trim_matches('/'))
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode and content of each entry.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            assert_eq!(&bytes[..6], b"070701");
            let field = |index: usize| {
                let digits = std::str::from_utf8(&bytes[6 + index * 8..][..8]).expect("ASCII");
                u32::from_str_radix(digits, 16).expect("hexadecimal")
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            assert_eq!(bytes[110 + name_size - 1], 0);
            let name = String::from_utf8(bytes[110..][..name_size - 1].to_vec()).expect("UTF-8");
            let content = (110 + name_size).next_multiple_of(4);
            entries.push((name, mode, bytes[content..][..size].to_vec()));
            bytes = &bytes[(content + size).next_multiple_of(4)..];
        }
        entries
    }

    #[test]
    fn files_lie_behind_their_folders_and_a_folder_comes_once() {
        let mut archive = Archive::default();
        archive.file(Path::new("/init"), b"#!").expect("init");
        archive.file(Path::new("/lib/x/libc.so.6"), b"12345").expect("libc");
        archive.folder(Path::new("/lib")).expect("lib");
        archive.file(Path::new("/lib/x/libz.so.1"), b"").expect("libz");
        archive.folder(Path::new("/e")).expect("e");
        let entries = read(&archive.finish().expect("finish"));
        let expected: [(&str, u32, &[u8]); 7] = [
            ("init", 0o100_755, b"#!"),
            ("lib", 0o040_755, b""),
            ("lib/x", 0o040_755, b""),
            ("lib/x/libc.so.6", 0o100_755, b"12345"),
            ("lib/x/libz.so.1", 0o100_755, b""),
            ("e", 0o040_755, b""),
            ("TRAILER!!!", 0, b""),
        ];
        assert_eq!(entries, expected.map(|(name, mode, content)| (name.to_owned(), mode, content.to_vec())));
    }

    #[test]
    fn only_plain_absolute_paths_are_taken() {
        for path in ["init", "/", "/lib/../init", ""] {
            assert!(Archive::default().file(Path::new(path), b"").is_err(), "{path}");
        }
    }
}
