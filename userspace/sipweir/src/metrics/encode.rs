//! The text that is scraped: OpenMetrics 1.0, written by `prometheus-client`.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::{Kind, Metric, PREFIX, Sample, Value, metrics};
use crate::status::Status;

/// The media type of [`text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a status, ended by `# EOF`. Families without a sample are left out.
#[must_use]
pub fn text(status: &Status) -> String {
    let families = metrics().map(|metric| (metric, metric.samples(status)));
    let families = families.filter(|(_, samples)| !samples.is_empty()).collect();
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Snapshot(families)));
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ok = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// The samples of one moment.
#[derive(Debug)]
struct Snapshot(Vec<(&'static Metric, Vec<Sample>)>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (metric, samples) in &self.0 {
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
                Kind::Info => MetricType::Info,
            };
            let unit = metric.unit.map(|unit| Unit::Other(unit.to_owned()));
            let mut family = encoder.encode_descriptor(metric.name, metric.sentence, unit.as_ref(), kind)?;
            for sample in samples {
                encode_sample(&mut family, metric, sample)?;
            }
        }
        Ok(())
    }
}

/// Without exemplars; the type of those that are not there.
type NoLabels = [(&'static str, &'static str); 0];

fn encode_sample(
    family: &mut MetricEncoder<'_>,
    metric: &Metric,
    sample: &Sample,
) -> Result<(), std::fmt::Error> {
    let names = metric.labels.iter().map(|label| label.name());
    let labels: Vec<(&str, &str)> = names.zip(sample.values.iter().map(String::as_str)).collect();
    if metric.kind == Kind::Info {
        return family.encode_info(&labels);
    }
    let mut encoder = family.encode_family(&labels)?;
    match (metric.kind, &sample.value) {
        (Kind::Counter, Value::Whole(count)) => encoder.encode_counter::<NoLabels, _, f64>(count, None),
        (Kind::Counter, Value::Real(sum)) => encoder.encode_counter::<NoLabels, _, f64>(sum, None),
        (_, Value::Whole(count)) => encoder.encode_gauge(count),
        (_, Value::Real(measure)) => encoder.encode_gauge(measure),
        (_, Value::Waits { buckets, sum_s }) => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_histogram::<NoLabels>(*sum_s, count, buckets, None)
        }
    }
}
