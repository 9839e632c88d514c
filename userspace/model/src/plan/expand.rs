//! Lists and ranges: from one document with choices to many without.
//!
//! | in the plan | values |
//! |---|---|
//! | `[500, 8000]` | these |
//! | `"100..400 step 100"` | 100, 200, 300, 400 |
//! | `"500..8000 times 4"` | 500, 2000, 8000 |

use toml::{Table, Value};

use super::PlanError;

/// More runs than this are a slip of the pen: a minute each would take a week.
pub(super) const COMBINATIONS_MAX: usize = 10_000;

/// One choice for every list and range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice {
    /// The table with one value for each key.
    pub(super) table: Table,
    /// What was chosen: path of the key, value as text.
    pub(super) chosen: Vec<(String, String)>,
}

/// All choices of a table, in the order of the lists; the last key changes fastest. `path` is that of the table.
pub(super) fn choices(path: &str, table: &Table) -> Result<Vec<Choice>, PlanError> {
    let mut all = vec![Choice { table: Table::new(), chosen: Vec::new() }];
    for (key, value) in table {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let options = options(&path, value)?;
        if all.len() * options.len() > COMBINATIONS_MAX {
            return Err(PlanError(format!(
                "{path}: its values make more than {COMBINATIONS_MAX} runs with those before; shorten the lists"
            )));
        }
        let mut next = Vec::with_capacity(all.len() * options.len());
        for choice in &all {
            for (value, chosen) in &options {
                let mut choice = choice.clone();
                choice.table.insert(key.clone(), value.clone());
                choice.chosen.extend(chosen.iter().cloned());
                next.push(choice);
            }
        }
        all = next;
    }
    Ok(all)
}

type Chosen = Vec<(String, String)>;

/// The values that one key can have.
fn options(path: &str, value: &Value) -> Result<Vec<(Value, Chosen)>, PlanError> {
    let listed = |values: Vec<Value>| {
        let option = |value: Value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (value, vec![(path.to_owned(), text)])
        };
        values.into_iter().map(option).collect()
    };
    match value {
        Value::Table(inner) => {
            let inner = choices(path, inner)?;
            Ok(inner.into_iter().map(|choice| (Value::Table(choice.table), choice.chosen)).collect())
        }
        Value::Array(values) if values.is_empty() => {
            Err(PlanError(format!("{path}: an empty list makes no run; give at least one value")))
        }
        Value::Array(values) => Ok(listed(values.clone())),
        Value::String(text) => match range(text) {
            None => Ok(vec![(value.clone(), Vec::new())]),
            Some(Ok(values)) => Ok(listed(values)),
            Some(Err(wrong)) => Err(PlanError(format!("{path}: {wrong}"))),
        },
        _ => Ok(vec![(value.clone(), Vec::new())]),
    }
}

/// The values of a range; `None` if the text is none.
fn range(text: &str) -> Option<Result<Vec<Value>, String>> {
    let (from, rest) = text.split_once("..")?;
    let wrong = || {
        format!(
            "{text:?} is no range; write \"100..400 step 100\" or \"500..8000 times 2\", from below to and rising"
        )
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [to, how, by] = words.as_slice() else { return Some(Err(wrong())) };
    let number = |word: &str| word.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let (Some(from), Some(to), Some(by)) = (number(from), number(to), number(by)) else {
        return Some(Err(wrong()));
    };
    let rises = match *how {
        "step" => by > 0.0,
        "times" => by > 1.0 && from > 0.0,
        _ => false,
    };
    if from > to || !rises {
        return Some(Err(wrong()));
    }
    let mut values = Vec::new();
    for index in 0..=COMBINATIONS_MAX {
        let value =
            if *how == "step" { by.mul_add(index as f64, from) } else { from * by.powi(index as i32) };
        // A step that does not divide the range evenly in binary still reaches its end.
        if value > to * (1.0 + 1e-12) {
            return Some(Ok(values));
        }
        let whole = value.fract() == 0.0 && value.abs() < 1e15;
        values.push(if whole { Value::Integer(value as i64) } else { Value::Float(value) });
    }
    Some(Err(format!("{text:?} has more than {COMBINATIONS_MAX} values; take larger steps")))
}

#[cfg(test)]
mod tests {
    use super::choices;

    fn all(text: &str) -> Vec<Vec<(String, String)>> {
        choices("", &text.parse().unwrap()).unwrap().into_iter().map(|choice| choice.chosen).collect()
    }

    fn values(text: &str) -> Vec<String> {
        all(text).into_iter().map(|chosen| chosen[0].1.clone()).collect()
    }

    #[test]
    fn lists_and_ranges_give_their_values() {
        assert_eq!(values("a = [500, 8000]"), ["500", "8000"]);
        assert_eq!(values("a = \"100..400 step 100\""), ["100", "200", "300", "400"]);
        assert_eq!(values("a = \"0.2..0.6 step 0.2\"").len(), 3);
        assert_eq!(values("a = \"500..8000 times 4\""), ["500", "2000", "8000"]);
        assert_eq!(values("a = [\"mmpp 1:1\", \"2\"]"), ["mmpp 1:1", "2"]);
    }

    #[test]
    fn the_product_is_run_and_each_choice_is_named() {
        let all = all("x = 5\n[t]\na = [1, 2]\nb = [3, 4]\n");
        let named =
            |a: &str, b: &str| vec![("t.a".to_owned(), a.to_owned()), ("t.b".to_owned(), b.to_owned())];
        assert_eq!(all, [named("1", "3"), named("1", "4"), named("2", "3"), named("2", "4")]);
    }

    #[test]
    fn without_choices_there_is_one_run() {
        assert_eq!(all("x = 5\ny = \"a.b\""), [vec![]]);
    }

    #[test]
    fn what_is_no_list_or_range_is_refused_by_key() {
        for (text, part) in [
            ("a = []", "a: an empty list"),
            ("a = \"1..2\"", "a: \"1..2\" is no range"),
            ("a = \"3..2 step 1\"", "is no range"),
            ("a = \"0..2 times 2\"", "is no range"),
            ("a = \"1..2 step 0\"", "is no range"),
            ("a = \"1..2 step x\"", "is no range"),
            ("a = \"0..1e9 step 1\"", "more than 10000 values"),
            ("a = \"1..200 step 1\"\nb = \"1..200 step 1\"", "b: its values make more than 10000 runs"),
        ] {
            let error = choices("", &text.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
