//! `docs/recipes.md`, as it stands there: the files of the Kamailio recipe are run.

use std::time::Duration;

use sipweir_tests::kamailio::Script;
use sipweir_tests::{CallLoad, Kamailio, KamailioPlan, LinkPlan, Sipweir};

use crate::guard::{end, kernel_packets};
use crate::topology::Topology;

const PAGE: &str = include_str!("../../docs/recipes.md");

/// The address of the page.
const ADDRESS: &str = "192.0.2.1:5060";

/// The code block under a heading that begins with these words, with the address of a service instead of the page's.
#[track_caller]
fn block(heading: &str, begin: &str, service: &str) -> String {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let (_, rest) = section.split_once(&format!("\n{begin}\n")).unwrap_or_else(|| panic!("no block {begin}"));
    let text = rest.split("\n```").next().expect("its end");
    assert!(text.contains(ADDRESS), "{text}");
    text.replace(ADDRESS, service)
}

#[test]
fn the_kamailio_recipe_works_as_it_is_printed() {
    let topology = Topology::new(&LinkPlan::default());
    let service = topology.service();
    let script = block("Kamailio", "```\n#!KAMAILIO", &service.to_string());
    // A script is for the life of the process.
    let script: &'static str = format!("#!KAMAILIO\n{script}\n").leak();
    let plan = KamailioPlan { script: Script::Given(script), ..KamailioPlan::new(service) };
    let kamailio = Kamailio::start(&topology.server, &plan);
    let mut sipweir = Sipweir::start(&topology.server, &block("Kamailio", "```toml", &service.to_string()));
    let totals = topology.call(&CallLoad::at(100).ending_after(200)).finish(Duration::from_secs(20)).totals();
    assert_eq!((totals.completed, totals.copies), (200, 0), "{totals:?}\n{}", kamailio.log());
    assert!(kernel_packets(&sipweir.status(), Some("undecided")) >= 200);
    end(sipweir, &topology);
}
