//! Running a command with its chatter kept back.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Runs it to its end and returns what it wrote to its standard output.
///
/// # Errors
/// If it cannot be started, or fails; the message holds all that it wrote.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    let written = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}):\n{written}{complaint}", output.status);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_run_and_what_it_wrote() {
        let error = output(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).expect_err("3");
        let message = error.to_string();
        assert!(message.starts_with("`sh -c echo out;"), "{message}");
        assert!(message.ends_with("failed (exit status: 3):\nout\nerr\n"), "{message}");
    }
}
