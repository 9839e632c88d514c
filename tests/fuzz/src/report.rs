//! A disagreement for people and for the next run: on paper, and as files that a test can read.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::engine::Disagreement;

/// A disagreement that a run found.
#[derive(Debug)]
pub struct Finding {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the case in the run.
    pub index: u64,
    /// As it was found.
    pub found: Disagreement,
    /// As small as it could be made.
    pub smallest: Disagreement,
}

impl Finding {
    /// Everything that is known.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "The program in the kernel and the classifier of user space disagree.\n\
             seed {}, case {} (cargo xtask fuzz --seed {} --from {} --messages 1 makes it again)\n",
            self.seed, self.index, self.seed, self.index
        );
        section(&mut text, "as small as it could be made", &self.smallest);
        section(&mut text, "as found", &self.found);
        text
    }

    /// Writes the text, the smallest packet and the smallest datagram into a folder, which is made if need be, and
    /// returns the path of the text.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let mut packet = Vec::new();
        self.smallest.case.shape.write(&self.smallest.case.datagram, &mut packet);
        let path = |ending| folder.join(format!("disagreement-{}-{}.{ending}", self.seed, self.index));
        let files = [
            ("packet", packet.as_slice()),
            ("datagram", &self.smallest.case.datagram),
            ("txt", self.text().as_bytes()),
        ]
        .map(|(ending, bytes)| (path(ending), bytes.to_vec()));
        for (path, bytes) in files {
            fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(path("txt"))
    }
}

fn section(text: &mut String, title: &str, disagreement: &Disagreement) {
    let Disagreement { case, word, complaint } = disagreement;
    let mut packet = Vec::new();
    case.shape.write(&case.datagram, &mut packet);
    // Writing into a string cannot fail.
    let _always = write!(
        text,
        "\n{title}:\n  {complaint}\n  gate word {word:#018x}, drop what is no SIP: {}, {:?}\n  \
         datagram of {} bytes:\n    {}\n  packet of {} bytes:\n",
        case.drop_not_sip,
        case.shape,
        case.datagram.len(),
        case.datagram.escape_ascii(),
        packet.len()
    );
    for row in packet.chunks(32) {
        text.push_str("    ");
        for byte in row {
            let _always = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    #[test]
    fn a_finding_shows_and_keeps_what_is_needed_to_see_it_again() {
        let disagreement = |datagram: &[u8]| Disagreement {
            case: Case { datagram: datagram.to_vec(), ..Case::default() },
            word: 1 << 32,
            complaint: "another class".to_owned(),
        };
        let finding = Finding {
            seed: 5,
            index: 99,
            found: disagreement(b"long\r\n\xff"),
            smallest: disagreement(b"s\n"),
        };
        let text = finding.text();
        for part in [
            "--seed 5 --from 99",
            "another class",
            "long\\r\\n\\xff",
            "s\\n",
            "0x0000000100000000",
            "0200000000010200",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = finding.save(&folder.path().join("new")).expect("saved");
        assert_eq!(fs::read_to_string(&path).expect("text"), text);
        assert_eq!(fs::read(path.with_extension("datagram")).expect("datagram"), b"s\n");
        assert_eq!(fs::read(path.with_extension("packet")).expect("packet").len(), 44);
    }
}
