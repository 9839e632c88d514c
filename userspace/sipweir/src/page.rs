//! Reports as single HTML pages that need nothing else: no scripts, no fonts, no network. Shared by the commands that
//! make them; what a page says is theirs.

mod output;
mod svg;

pub(crate) use self::output::Output;
pub(crate) use self::svg::{Axis, Plot, Shape, escape, number};

/// Both kinds of ground, by the reader's setting; colours that the colour-blind can tell apart, and shapes besides.
const STYLE: &str = include_str!("page/style.css");

/// Colours that the style sheet has for numbered series (`series0` and so on).
pub(crate) const SERIES: usize = 8;

/// A whole document. The title is text; the body is HTML, from its header to its last section.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        title = escape(title),
    )
}

#[cfg(test)]
mod tests {
    use super::{SERIES, STYLE, document};

    #[test]
    fn a_title_is_text_and_cannot_break_the_page() {
        let page = document("a </title><script>", "<p>b</p>\n");
        assert!(page.contains("<title>a &lt;/title&gt;&lt;script&gt;</title>") && page.contains("<p>b</p>"));
    }

    #[test]
    fn every_series_has_its_colours_on_both_grounds() {
        for number in 0..SERIES {
            assert_eq!(STYLE.matches(&format!("--series{number}:")).count(), 2);
            assert!(STYLE.contains(&format!(".mark.series{number} ")));
        }
        assert!(!STYLE.contains(&format!("--series{SERIES}:")));
    }
}
