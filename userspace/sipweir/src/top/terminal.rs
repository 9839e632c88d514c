//! The terminal that the live view takes and gives back.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Context as _;
use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;

use super::draw::Look;
use super::state::Key;

/// Whether standard output is a terminal.
pub(super) fn is_there() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether it is one in which the cursor cannot be moved.
pub(super) fn is_dumb() -> bool {
    is_there() && std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

/// Its columns and rows, if it is one.
pub(super) fn size() -> Option<(u16, u16)> {
    let size = if is_there() { ratatui::crossterm::terminal::size().ok() } else { None };
    size.filter(|(width, height)| *width > 0 && *height > 0)
}

/// What it can show, by the environment: no colours if `NO_COLOR` is set (<https://no-color.org>), and characters beyond ASCII if
/// the locale is one of UTF-8.
pub(super) fn look() -> Look {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| of(name));
    Look { colour: of("NO_COLOR").is_none(), unicode: locale.as_deref().is_some_and(is_utf8) }
}

fn is_utf8(locale: &OsStr) -> bool {
    let locale = locale.to_string_lossy().to_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// What happened at it.
pub(super) enum Event {
    Key(Key),
    Resized,
    Nothing,
}

/// The terminal, raw and on its second page. Dropping it gives it back, and so does a panic, by the hook that `ratatui` sets.
pub(super) struct Terminal {
    terminal: DefaultTerminal,
    /// Dropped after the terminal.
    _restored: Restored,
}

/// Gives the terminal back, however far taking it got.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl Terminal {
    pub(super) fn take() -> anyhow::Result<Self> {
        let _restored = Restored;
        let terminal = ratatui::try_init().context("cannot use the terminal; try `sipweir top --once`")?;
        Ok(Self { terminal, _restored })
    }

    pub(super) fn show(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> anyhow::Result<()> {
        let drawn = self.terminal.draw(|frame| draw(frame.area(), frame.buffer_mut()));
        drawn.context("cannot write to the terminal")?;
        Ok(())
    }

    /// What happens within this time.
    pub(super) fn next(&mut self, within: Duration) -> anyhow::Result<Event> {
        let unreadable = "cannot read the terminal";
        if !event::poll(within).context(unreadable)? {
            return Ok(Event::Nothing);
        }
        Ok(match event::read().context(unreadable)? {
            event::Event::Key(key) if key.kind != KeyEventKind::Release => {
                key_of(key.code, key.modifiers).map_or(Event::Nothing, Event::Key)
            }
            event::Event::Resize(..) => Event::Resized,
            _ => Event::Nothing,
        })
    }
}

fn key_of(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    let control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        // In raw mode it is a key and no signal.
        KeyCode::Char('c') if control => Key::Quit,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Key, KeyCode, KeyModifiers, is_utf8, key_of};

    #[test]
    fn control_c_ends_it_and_other_control_keys_are_no_letters() {
        let control = KeyModifiers::CONTROL;
        assert_eq!(key_of(KeyCode::Char('c'), control), Some(Key::Quit));
        assert_eq!(key_of(KeyCode::Char('s'), control), None);
        assert_eq!(key_of(KeyCode::Char('S'), KeyModifiers::SHIFT), Some(Key::Char('S')));
        assert_eq!(key_of(KeyCode::F(1), KeyModifiers::NONE), None);
    }

    #[test]
    fn locales_of_utf_8_are_known_in_either_spelling() {
        for (locale, expected) in
            [("C.UTF-8", true), ("de_DE.utf8", true), ("C", false), ("en_US.ISO-8859-1", false)]
        {
            assert_eq!(is_utf8(locale.as_ref()), expected, "{locale}");
        }
    }
}
