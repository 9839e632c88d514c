use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::{Look, draw, duration, rate};
use crate::top::state::{Key, State};
use crate::top::testing::status;

const PLAIN: Look = Look { colour: false, unicode: true };

fn state() -> State {
    let mut state = State::new(Duration::from_secs(1));
    (1..=6).for_each(|second| state.look(status(second)));
    state
}

fn drawn(state: &State, look: Look, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no terminal can refuse");
    terminal.draw(|frame| draw(state, look, frame.area(), frame.buffer_mut())).expect("drawn");
    terminal
}

fn rows(terminal: &Terminal<TestBackend>) -> Vec<String> {
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    let row = |cells: &[ratatui::buffer::Cell]| {
        cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
    };
    buffer.content().chunks(width).map(row).collect()
}

fn shown(state: &State, width: u16, height: u16) -> String {
    rows(&drawn(state, PLAIN, width, height)).join("\n")
}

#[test]
fn it_fits_80_columns_and_24_rows() {
    let shown = shown(&state(), 80, 24);
    assert_eq!(shown, include_str!("80x24.txt").trim_end(), "\n{shown}");
}

#[test]
fn at_120_columns_the_xdp_program_has_a_table_of_its_own() {
    let shown = shown(&state(), 120, 40);
    assert_eq!(shown, include_str!("120x40.txt").trim_end(), "\n{shown}");
}

#[test]
fn without_colour_the_same_is_said_by_bold_and_reverse() {
    let style_of = |look, column| {
        let terminal = drawn(&state(), look, 80, 24);
        terminal.backend().buffer()[(column, 2)].style()
    };
    let gate = style_of(PLAIN, 17);
    assert_eq!((gate.fg, gate.add_modifier), (Some(Color::Reset), Modifier::BOLD));
    let gate = style_of(Look { colour: true, ..PLAIN }, 17);
    assert_eq!(gate.fg, Some(Color::Yellow));
    let plain = drawn(&state(), PLAIN, 80, 24);
    let cells = plain.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
}

#[test]
fn a_terminal_without_unicode_gets_ascii_only() {
    let terminal = drawn(&state(), Look { colour: false, unicode: false }, 80, 24);
    let rows = rows(&terminal);
    assert!(rows.iter().all(|row| row.is_ascii()), "{rows:#?}");
    assert!(rows[3].ends_with("  ====="), "{}", rows[3]);
}

#[test]
fn keys_change_what_is_shown() {
    let mut state = state();
    state.press(Key::Char('x'));
    assert!(shown(&state, 80, 24).contains("copy      drop"), "the XDP program's table");
    state.press(Key::Char('x'));
    state.press(Key::Right);
    let at_worker = shown(&state, 80, 24);
    assert!(at_worker.contains(" main q0") && at_worker.contains(" original    2000"), "{at_worker}");
    "/silent".chars().for_each(|letter| state.press(Key::Char(letter)));
    let filtered = shown(&state, 80, 24);
    assert!(filtered.contains("silent_over_budget") && !filtered.contains("ack_absorbed"), "{filtered}");
    assert!(filtered.contains("filter: silent_"), "{filtered}");
    [Key::Escape, Key::Char('s'), Key::Char('p')].into_iter().for_each(|key| state.press(key));
    let sorted = shown(&state, 80, 24);
    assert!(sorted.find("ack_absorbed") < sorted.find("xdp original_waits"), "{sorted}");
    assert!(sorted.contains("PAUSED") && sorted.contains("sort by name"), "{sorted}");
    state.press(Key::Char('?'));
    assert!(shown(&state, 80, 24).contains("Keys and words"));
}

#[test]
fn who_does_not_answer_is_named_over_the_last_figures() {
    let mut state = state();
    state.trouble("no sipweir answers on /run/x.sock".into());
    let text = shown(&state, 80, 24);
    assert!(text.starts_with("no sipweir answers on /run/x.sock; trying again every 1 s"), "{text}");
    assert!(text.contains("overload"), "{text}");
    let text = shown(&State::new(Duration::from_secs(1)), 80, 24);
    assert!(text.contains("waiting for two answers"), "{text}");
}

#[test]
fn no_size_is_a_panic_and_a_small_one_is_named() {
    let state = state();
    for (width, height) in (1..90).step_by(3).flat_map(|width| (1..30).map(move |height| (width, height))) {
        let text = shown(&state, width, height);
        assert!(width < 40 || height < 10 || text.contains("main"), "{width}×{height}: {text}");
    }
    assert!(shown(&state, 60, 9).contains("too small"));
}

#[test]
fn numbers_take_six_characters_at_most() {
    for (value, text) in [
        (0.0, "0"),
        (0.04, "0"),
        (0.3, "0.3"),
        (9.96, "10"),
        (1990.4, "1990"),
        (99_999.4, "99999"),
        (123_456.0, "123k"),
        (12_345_678.0, "12M"),
    ] {
        assert_eq!(rate(value), text);
    }
    assert_eq!(duration(59.9), "00:00:59");
    assert_eq!(duration(90_061.0), "1 d 01:01:01");
}
