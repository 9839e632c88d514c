//! Whether a service is guarded or only watched, and which classes of it.

use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use sip::Class;

/// What sipweir does for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceMode {
    /// It guards the service.
    #[default]
    Enforce,
    /// It watches: everything is classified and counted, and the packets pass to the kernel as without sipweir.
    Monitor,
}

/// Classes whose packets are only watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Monitored(u16);

impl Monitored {
    /// None: the service is guarded.
    pub const NONE: Self = Self(0);
    /// All: nothing is done to any packet.
    pub const ALL: Self = Self(u16::MAX);

    /// One bit for each class, by its number.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// For `sipweir status`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NONE => "enforce",
            Self::ALL => "monitor",
            Self(_) => "monitor_some",
        }
    }

    /// Whether all classes are.
    #[must_use]
    pub fn is_all(self) -> bool {
        self == Self::ALL
    }

    /// Whether this class is.
    #[must_use]
    pub const fn has(self, class: Class) -> bool {
        self.0 >> class as u16 & 1 == 1
    }

    /// These classes. What the XDP program cannot tell is taken for an original there.
    fn of(classes: &[Class]) -> Self {
        let undecided = classes.contains(&Class::Original).then_some(Class::Undecided);
        let listed = classes.iter().copied().chain(undecided);
        let bits = listed.fold(0, |bits, class| bits | 1 << class as u16);
        if Class::OF_SERVICES.iter().all(|class| classes.contains(class)) { Self::ALL } else { Self(bits) }
    }
}

/// Labels of classes, as in `sipweir status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorClasses(pub Vec<Class>);

impl MonitorClasses {
    /// The set of them.
    #[must_use]
    pub fn monitored(&self) -> Monitored {
        Monitored::of(&self.0)
    }
}

impl<'de> Deserialize<'de> for MonitorClasses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let labels = Vec::<String>::deserialize(deserializer)?;
        let class_of = |label: &String| {
            Class::OF_SERVICES.into_iter().find(|class| class.name() == label).ok_or_else(|| {
                let names: Vec<_> = Class::OF_SERVICES.iter().map(|class| class.name()).collect();
                de::Error::custom(format!("{label:?} is no class; there are {}", names.join(", ")))
            })
        };
        labels.iter().map(class_of).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use sip::Class;

    use super::{Monitored, ServiceMode};
    use crate::config::Config;
    use crate::config::tests::problems;

    fn service(lines: &str) -> String {
        format!("interface = \"eth0\"\n[service.main]\nlisten = \"*:5060\"\n{lines}\n")
    }

    fn monitored(lines: &str) -> Monitored {
        let text = service(&format!("handoff = \"kernel\"\n{lines}"));
        Config::parse("test.toml", &text).expect("valid").service["main"].monitored()
    }

    #[test]
    fn a_service_is_guarded_unless_it_says_otherwise() {
        assert_eq!(monitored(""), Monitored::NONE);
        assert_eq!(monitored("mode = \"enforce\""), Monitored::NONE);
        assert!(monitored("mode = \"monitor\"").is_all());
        assert_eq!(ServiceMode::default(), ServiceMode::Enforce);
    }

    #[test]
    fn classes_are_watched_by_name_and_what_may_be_an_original_with_the_originals() {
        let some = monitored("mode = \"monitor\"\nmonitor_classes = [\"original\", \"copy\"]");
        assert!(some.has(Class::Original) && !some.has(Class::Ack) && !some.is_all());
        let expected = [Class::Original, Class::Copy, Class::Undecided];
        assert_eq!(some.bits(), expected.iter().fold(0, |bits, class| bits | 1 << *class as u16));
        assert!(!monitored("mode = \"monitor\"\nmonitor_classes = [\"copy\"]").has(Class::Original));
        let all: Vec<_> = Class::OF_SERVICES.iter().map(|class| format!("{:?}", class.name())).collect();
        assert!(monitored(&format!("mode = \"monitor\"\nmonitor_classes = [{}]", all.join(", "))).is_all());
    }

    #[test]
    fn what_cannot_be_watched_is_refused_with_what_to_change() {
        for (lines, key, said) in [
            (
                "handoff = \"kernel\"\nmode = \"monitor\"\nmonitor_classes = [\"foreign\"]",
                "monitor_classes",
                "there are response, ack",
            ),
            (
                "handoff = \"kernel\"\nmode = \"monitor\"\nmonitor_classes = []",
                "monitor_classes",
                "name a class",
            ),
            ("handoff = \"kernel\"\nmonitor_classes = [\"copy\"]", "monitor_classes", "mode = \"monitor\""),
            ("handoff = \"embedded\"\nmode = \"monitor\"", "mode", "handoff = \"kernel\""),
            (
                "handoff = \"kernel\"\nmode = \"monitor\"\nmonitor_classes = [\"copy\"]\ngate.kind = \"fifo\"",
                "monitor_classes",
                "fifo knows no classes",
            ),
        ] {
            let found = problems(&service(lines));
            assert!(
                found.len() == 1 && found[0].key.ends_with(key) && found[0].message.contains(said),
                "{lines}: {found:?}"
            );
        }
    }
}
