//! Tests of the page, the summary and the CSV of an invented run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::default_axes::without_default_axes;
use crate::gpus::{gpu, on_cuda};
use crate::support::{RunBuilder, cell, invented, loss, record, run, suite, train_metrics, workload};
use flate2::{Compression, write::GzEncoder};
use mantissa_core::{
    Axis, Event, EventKind, ExecutedVerdict, Gpu, Metric, MetricName, Record, Samples, SeriesName, Status,
};
use mantissa_report::{
    Digest, Report, Run, csv, figures, html, json, load, markdown, render, terminal_tables,
};
use mantissa_run_folder::SampleSelection;

fn page(run: &Run) -> String {
    let report = Report::new(run).unwrap();
    let drawn = figures(&report);
    let pictures: Vec<_> = drawn
        .iter()
        .map(|figure| (figure, figure.canvas.svg().unwrap()))
        .collect();
    html(&report, &pictures).unwrap()
}

#[test]
fn summary_matches_the_snapshot() {
    let run = invented();
    insta::assert_snapshot!(markdown(&Report::new(&run).unwrap()));
}

#[test]
fn the_report_as_json_has_the_values_of_its_rows() {
    let run = invented();
    let report = Report::new(&run).unwrap();
    let text = json(&report).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed["schema"], 1);
    let cells: Vec<&serde_json::Value> = parsed["suites"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|suite| suite["workloads"].as_array().unwrap())
        .flat_map(|workload| workload["cells"].as_array().unwrap())
        .collect();
    assert_eq!(cells.len(), report.rows().count());
    for ((_, row), cell) in report.rows().zip(&cells) {
        assert_eq!(cell["status"], row.status_name());
        assert_eq!(cell["metrics"].as_object().unwrap().len(), row.metrics.len());
        for (metric, estimate) in &row.metrics {
            assert_eq!(
                cell["metrics"][metric.name()]["value"].as_f64(),
                Some(estimate.value)
            );
        }
        assert_eq!(cell["speed_up"].is_null(), row.speed_up.is_none());
    }
    assert_eq!(json(&report).unwrap(), text, "the JSON is not deterministic");
}

#[test]
fn csv_matches_the_snapshot() {
    let run = invented();
    let bytes = csv(&Report::new(&run).unwrap()).unwrap();
    insta::assert_snapshot!(without_default_axes(&String::from_utf8(bytes).unwrap()));
}

#[test]
fn terminal_tables_match_the_snapshot() {
    let run = invented();
    let mut text = String::new();
    for table in terminal_tables(&Report::new(&run).unwrap()) {
        let width = |column: usize| {
            let cells = table.rows.iter().map(|row| row[column].chars().count());
            cells
                .chain([table.header[column].0.chars().count()])
                .max()
                .unwrap()
        };
        let widths: Vec<usize> = (0..table.header.len()).map(width).collect();
        assert!(
            widths.iter().sum::<usize>() + 3 * widths.len() < 110,
            "{}: {widths:?}",
            table.title
        );
        text += &format!("{}\n", table.title);
        let header: Vec<String> = table.header.iter().map(|(title, _)| title.clone()).collect();
        for row in [&header].into_iter().chain(&table.rows) {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            text += &format!("{}\n", cells.join(" | ").trim_end());
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn small_shares_are_not_rounded_to_zero() {
    let mut run = invented();
    for (metric, value) in [
        (MetricName::UnderflowShare, 0.003),
        (MetricName::OverflowShare, 3.1e-5),
    ] {
        let metrics = &mut run.records[0].metrics;
        metrics.insert(metric, Metric::reading(metric, value, "invented"));
    }
    let page = page(&run);
    for text in ["\"0.0030\"", "\"3.10×10⁻⁵\""] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn the_page_contains_every_cell_and_loads_no_resources() {
    let run = invented();
    let page = page(&run).replace("&#x2f;", "/");
    for planned in &run.plan.cells {
        assert!(page.contains(planned.cell.id.as_str()), "{}", planned.cell.id);
    }
    // The font of the figures is embedded. No other resource may be loaded.
    let elsewhere = page.replace("url(data:font/otf;base64,", "");
    for loading in ["src=", "@import", "url(", "<link", "<iframe", "fetch("] {
        assert!(!elsewhere.contains(loading), "{loading}");
    }
    let outside = page.matches("href=\"https://").count() + page.matches("href=\"http://").count();
    let sources = page.matches("rel=\"noreferrer\"").count();
    assert_eq!(
        outside, sources,
        "every external link is the source of a published table"
    );
}

#[test]
fn the_page_shows_the_warnings() {
    let page = page(&invented());
    for warning in [
        "These are CPU times.",
        "The data is synthetic.",
        "Executed precision differs from requested.",
        "Executed precision unverified.",
        "are from another machine.",
    ] {
        assert!(page.contains(warning), "{warning}");
    }
    assert!(!page.contains("Not a release build."));
}

#[test]
fn the_page_warns_of_a_debug_build_and_a_truncated_record() {
    let mut run = invented();
    run.environment.fingerprint.build = "debug".into();
    run.is_truncated = true;
    let page = page(&run);
    assert!(page.contains("Not a release build.") && page.contains("A record is truncated."));
}

#[test]
fn a_warning_of_a_training_is_shown_in_its_row() {
    let mut run = invented();
    let detail = "`adam_eps=1e-8` is 0 in f16: an update may be zero over zero";
    let diverged = run
        .records
        .iter_mut()
        .find(|record| record.status == Status::Diverged);
    diverged.unwrap().events.push(Event {
        kind: EventKind::Warning,
        step: None,
        value: Some(1e-8),
        detail: detail.into(),
    });
    let html = page(&run);
    let (markup, facts) = html.split_once("id=\"facts\"").unwrap();
    let marked = "<code>adam_eps=1e-8</code> is 0 in f16: an update may be zero over zero";
    assert_eq!(
        (markup.matches(marked).count(), facts.matches(detail).count()),
        (1, 1)
    );
}

/// Returns the folded cells of a page: tables of texts by cell.
fn folded_cells(page: &str) -> Vec<Vec<(String, Vec<Vec<String>>)>> {
    let (_, rest) = page
        .split_once("<script type=\"application/json\" id=\"facts\">")
        .unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    assert!(!json.contains('<'), "`<` could end the script element");
    let facts: serde_json::Value = serde_json::from_str(json).unwrap();
    let text = |number: &serde_json::Value| {
        let number = number.as_u64().unwrap() as usize;
        facts["texts"][number].as_str().unwrap().to_owned()
    };
    let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
    let table = |number: &serde_json::Value| {
        let table = &facts["tables"][number.as_u64().unwrap() as usize];
        let rows = list(&table[2]);
        let rows = rows.iter().map(|row| list(row).iter().map(text).collect());
        (text(&table[0]), rows.collect())
    };
    let cells = list(&facts["cells"]);
    cells
        .iter()
        .map(|cell| list(cell).iter().map(table).collect())
        .collect()
}

#[test]
fn every_row_has_a_folded_cell_with_its_details() {
    let mut run = invented();
    run.records[1].fingerprint.cpu = Some("Another CPU".into());
    run.records[1].samples = Some("cells/x/0-0".into());
    run.records[4].events.extend((0..40).map(|step| Event {
        kind: EventKind::LossScale,
        step: Some(step),
        value: None,
        detail: String::new(),
    }));
    let html = page(&run);
    let cells = folded_cells(&html);
    assert_eq!(cells.len(), run.plan.cells.len());
    for number in 0..cells.len() {
        assert!(html.contains(&format!("id=\"cell-{number}\"")), "{number}");
        let links = html.matches(&format!("href=\"#cell-{number}\"")).count();
        assert_eq!(links, 1, "one row links to the cell");
    }
    let section = |cell: usize, title: &str| {
        let found = cells[cell].iter().find(|(known, _)| known == title);
        found.map(|(_, rows)| rows.clone()).unwrap_or_default()
    };
    let has = |cell: usize, title: &str, line: &[&str]| {
        assert!(
            section(cell, title).iter().any(|row| row == line),
            "{:?}",
            section(cell, title)
        );
    };
    has(1, "Setting", &["precision", "32-true"]);
    has(1, "Workload", &["train · epochs", "2"]);
    has(1, "Arithmetic", &["significand bits", "24", "24"]);
    has(
        1,
        "Metrics",
        &["test_accuracy", "86.10 %", "83.82–88.11", "1,000", "Wilson"],
    );
    has(
        1,
        "Metrics",
        &["host_peak_bytes", "920.0 MB", "–", "1", "invented"],
    );
    has(
        1,
        "Processes",
        &["0", "0", "ok", "–", "–", "–", "–", "cells/x/0-0"],
    );
    has(
        1,
        "Differences from the machine of the run",
        &["CPU", "Another CPU", "Invented CPU 9000"],
    );
    assert!(section(0, "Differences from the machine of the run").is_empty());
    has(4, "Events", &["0", "loss-scale", "3", "32768", "overflow"]);
    has(4, "Events", &["", "", "", "", "13 more in records.jsonl"]);
    let undefined = cells.iter().flatten().filter(|(title, _)| title == "Remarks");
    let undefined = undefined.filter(|(_, rows)| rows.iter().any(|row| row[0] == "skipped"));
    assert_eq!(undefined.count(), 1);
}

#[test]
fn a_row_has_the_plain_values_of_its_setting() {
    let mut run = invented();
    let accuracy = run.records[1].metrics.get_mut(&MetricName::TestAccuracy).unwrap();
    accuracy.n = Some(99);
    let html = page(&run);
    let row = |record: &Record| {
        let (_, rest) = html
            .split_once(&format!("id=\"row-{}\"", record.cell.id))
            .unwrap();
        rest.split_once('>').unwrap().0.to_owned()
    };
    let attributes =
        "data-seeds=\"123\" data-speed=\"310.4\" data-memory=\"1710000000.0\" data-accuracy=\"0.858\"";
    let first = row(&run.records[0]);
    assert!(
        first.contains(attributes) && !first.contains("data-differs"),
        "{first}"
    );
    // Too few examples for a comparison of accuracies.
    let baseline = "data-speed=\"171.2\" data-memory=\"920000000.0\" data-differs";
    assert!(
        row(&run.records[1]).ends_with(baseline),
        "{}",
        row(&run.records[1])
    );
    let failed = run
        .records
        .iter()
        .find(|record| record.status == Status::Failed)
        .unwrap();
    assert!(row(failed).ends_with("data-differs"), "{}", row(failed));
}

#[test]
fn the_scripts_of_a_page_insert_text_instead_of_markup() {
    let script = concat!(
        include_str!("../assets/copy.js"),
        include_str!("../assets/table.js"),
        include_str!("../assets/page.js")
    );
    for markup in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
    ] {
        assert!(!script.contains(markup), "{markup}");
    }
}

#[test]
fn runs_without_values_render_without_nan() {
    let mut run = invented();
    for record in &mut run.records {
        for metric in record.metrics.values_mut() {
            (metric.value, metric.low, metric.high, metric.n) = (None, None, None, None);
        }
    }
    assert_renders_without_nan(&run);
}

#[test]
fn a_run_in_which_every_cell_failed_renders() {
    let mut run = invented();
    for record in &mut run.records {
        record.status = Status::Failed;
        record.reason = Some("out of luck".into());
        record.metrics.clear();
    }
    run.digests.clear();
    assert_renders_without_nan(&run);
    assert!(page(&run).contains("No cell finished"));
}

#[test]
fn a_run_that_ended_before_its_first_cell_renders() {
    let mut run = invented();
    run.records.clear();
    run.digests.clear();
    assert_renders_without_nan(&run);
    assert!(page(&run).contains("The run is incomplete."));
}

fn assert_renders_without_nan(run: &Run) {
    let folder = tempfile::tempdir().unwrap();
    let rendered = render(run, folder.path()).unwrap();
    for path in rendered
        .files
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e != "png"))
    {
        let text = fs::read_to_string(path).unwrap();
        assert!(
            !text.contains("NaN") && !text.contains("inf "),
            "{}",
            path.display()
        );
    }
}

#[test]
fn the_baseline_is_kept_if_no_setting_is_shown_to_be_faster_and_as_accurate() {
    let run = invented();
    let report = Report::new(&run).unwrap();
    let answer = report.suites[0].groups[0].answer.join(" ");
    assert!(
        answer.starts_with(
            "Keep 32-true · highest: no other setting that is shown to keep the accuracy within 1 point"
        ),
        "{answer}"
    );
    assert!(
        answer.contains("Fastest of all is bf16-true (1.85× as fast as its baseline), which is not recommended: its accuracy changes by −9.3"),
        "{answer}"
    );
    assert!(
        answer.contains("16-true diverged: the loss was not finite from step 412."),
        "{answer}"
    );
}

#[test]
fn settings_skipped_for_the_same_reason_are_one_line() {
    let mut run = invented();
    let why = "the weights of the model are not on this machine";
    run.records.retain(|record| record.cell.suite != "article");
    let planned = run
        .plan
        .cells
        .iter_mut()
        .filter(|planned| planned.cell.suite == "article");
    let skipped = planned.map(|planned| planned.skip = Some(why.into())).count();
    let html = page(&run);
    let (page, facts) = html.split_once("id=\"facts\"").unwrap();
    assert!(page.contains(&format!(
        "<summary>{skipped} settings, all skipped: {why}</summary>"
    )));
    // The overview, the headline and the fold of the table.
    assert_eq!((page.matches(why).count(), facts.matches(why).count()), (3, 1));
    let summary = markdown(&Report::new(&run).unwrap());
    assert_eq!(summary.matches(why).count(), 1, "{summary}");
}

#[test]
fn every_scrolling_region_has_a_label() {
    let html = page(&invented());
    let regions = html.matches("class=\"scroll\"").count();
    let named = html
        .matches("class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"")
        .count();
    assert!(regions > 4 && regions == named, "{named} of {regions}");
    let script = include_str!("../assets/page.js");
    assert!(script.contains("scroll.setAttribute(\"aria-label\", strings[title])"));
}

#[test]
fn an_unknown_reference_is_an_error_that_lists_the_known_ones() {
    let mut run = invented();
    run.plan.suites[0].references = vec!["distilbert".into()];
    let error = Report::new(&run).unwrap_err().to_string();
    assert!(
        error.contains("unknown reference `distilbert`") && error.contains("accumulation-bloom"),
        "{error}"
    );
}

/// Writes a run without its samples, as the runner does.
pub fn write_run_folder(run: &Run) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("a-run");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("environment.json"),
        serde_json::to_string(&run.environment).unwrap(),
    )
    .unwrap();
    fs::write(
        folder.join("plan.json"),
        serde_json::to_string(&run.plan).unwrap(),
    )
    .unwrap();
    let lines: Vec<String> = run
        .records
        .iter()
        .map(|record| serde_json::to_string(record).unwrap() + "\n")
        .collect();
    fs::write(folder.join("records.jsonl"), lines.concat()).unwrap();
    (temporary, folder)
}

/// Writes the samples of a record into its folder.
pub fn write_samples(folder: &Path, samples: &Samples) {
    fs::create_dir_all(folder).unwrap();
    let file = fs::File::create(folder.join("samples.json.gz")).unwrap();
    let mut packed = GzEncoder::new(file, Compression::fast());
    serde_json::to_writer(&mut packed, samples).unwrap();
    packed.finish().unwrap();
}

#[test]
fn load_reads_the_latest_attempts_with_samples_and_skips_a_truncated_record() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul])]);
    let cell = cell("s", &workload("w"), &[]);
    let mut first = record(&cell, Status::Timeout, Some("its time was up"));
    let mut second = record(&cell, Status::Ok, None);
    train_metrics(&mut second, 10.0, 800, 1e9);
    (second.attempt, second.samples) = (1, Some("cells/x/0-1".into()));
    first.samples = Some("cells/x/0-0".into());
    run.add(first, None);
    run.records.push(second);
    let (_keep, folder) = write_run_folder(&run);
    write_samples(&folder.join("cells/x/0-1"), &loss(1, None));
    let records = fs::read_to_string(folder.join("records.jsonl")).unwrap();
    fs::write(folder.join("records.jsonl"), records + "{\"schema\":1,\"cel").unwrap();

    let loaded = load(&folder).unwrap();
    assert_eq!((loaded.name.as_str(), loaded.is_truncated), ("a-run", true));
    assert_eq!((loaded.records.len(), loaded.records[0].status), (1, Status::Ok));
    let samples = loaded
        .samples
        .read(
            &loaded.records[0],
            SampleSelection::series(&[SeriesName::TrainLoss]),
        )
        .unwrap();
    assert_eq!(samples, Some(loss(1, None)));
    assert_eq!(loaded.digests[&(cell.id.clone(), 0)], Digest::new(&loss(1, None)));
    assert!(loaded.missing_samples.is_empty());
    assert!(page(&loaded).contains("A record is truncated."));
}

#[test]
fn missing_samples_and_samples_outside_the_folder_are_reported() {
    let mut run = invented();
    run.records[0].samples = Some("cells/gone/0-0".into());
    run.records[1].samples = Some("../../etc".into());
    let (_keep, folder) = write_run_folder(&run);
    let loaded = load(&folder).unwrap();
    assert_eq!(loaded.missing_samples.len(), 2);
    assert!(loaded.missing_samples[1].contains("is outside the run folder"));
    assert_eq!(loaded.records.len(), run.records.len());
    assert!(page(&loaded).contains("Samples are missing."));
}

#[test]
fn a_folder_without_records_is_rejected() {
    let run = invented();
    let (_keep, folder) = write_run_folder(&run);
    fs::remove_file(folder.join("records.jsonl")).unwrap();
    assert!(
        load(&folder)
            .unwrap_err()
            .to_string()
            .contains("`records.jsonl` not found")
    );
}

#[test]
fn gpu_kernels_have_a_share_of_the_measured_peak() {
    let mut run = invented();
    let of_peak = |run: &Run| page(run).matches("of the measured peak").count();
    assert_eq!(of_peak(&run), 0, "a CPU has no measured peak");
    on_cuda(&mut run);
    assert_eq!(of_peak(&run), 0, "the executed precision was not observed");
    let verified = |record: &mut Record| record.executed.verdict = ExecutedVerdict::AsRequested;
    run.records.iter_mut().for_each(verified);
    let html = page(&run);
    assert_eq!(of_peak(&run), 30);
    assert_eq!(
        html.matches("100 % of the measured peak").count(),
        6,
        "the fastest kernel of each arithmetic is its peak"
    );

    // The fastest row executed another arithmetic than requested.
    let throughput = |record: &Record| {
        let metric = record.metrics.get(&MetricName::FlopsPerSecond);
        metric.and_then(|metric| metric.value).unwrap_or(0.0)
    };
    let fastest = run
        .records
        .iter_mut()
        .max_by(|a, b| throughput(a).total_cmp(&throughput(b)));
    fastest.unwrap().executed.verdict = ExecutedVerdict::Differs;
    let html = page(&run);
    assert_eq!(of_peak(&run), 29);
    assert_eq!(
        html.matches("100 % of the measured peak").count(),
        6,
        "the second fastest kernel of that arithmetic is now its peak"
    );
}

#[test]
fn kernels_on_listed_gpus_have_a_share_of_the_data_sheet_peak() {
    let mut run = invented();
    let of_sheet = |run: &Run| page(run).matches("of the data-sheet peak").count();
    for record in &mut run.records {
        record.executed.verdict = ExecutedVerdict::AsRequested;
        record.fingerprint.gpu = Some(gpu("NVIDIA A100-SXM4-40GB"));
    }
    assert_eq!(of_sheet(&run), 0, "the backend is the CPU");
    on_cuda(&mut run);
    assert_eq!(of_sheet(&run), 30);
    // The peak in the data sheet is 156 TFLOP/s for TF32 and 19.5 TFLOP/s for f32. A throughput of 78 TFLOP/s is 50 % and 400 % of these.
    for record in &mut run.records {
        record.metrics.insert(
            MetricName::FlopsPerSecond,
            Metric::reading(MetricName::FlopsPerSecond, 78e12, "invented"),
        );
    }
    let html = page(&run);
    assert!(html.contains("50 % of the data-sheet peak"));
    assert!(
        html.contains("Peak throughput without sparsity: NVIDIA A100 Tensor Core GPU data sheet, June 2021.")
    );
    assert!(html.contains("400 % of the data-sheet peak: implausible, check time and precision"));
    let slice = Gpu {
        uuid: Some("MIG-1".into()),
        ..gpu("NVIDIA A100-SXM4-40GB")
    };
    for without_peak in [slice, gpu("Invented GPU")] {
        for record in &mut run.records {
            record.fingerprint.gpu = Some(without_peak.clone());
        }
        assert_eq!(of_sheet(&run), 0);
    }
}

#[test]
fn a_kernel_is_compared_with_cublaslt() {
    let mut run = invented();
    on_cuda(&mut run);
    assert!(!page(&run).contains("cuBLASLt"));
    for record in &mut run.records {
        for (name, value) in [
            (MetricName::FlopsPerSecond, 78e12),
            (MetricName::CublasFlopsPerSecond, 156e12),
        ] {
            record
                .metrics
                .insert(name, Metric::reading(name, value, "invented"));
        }
    }
    let html = page(&run);
    assert!(html.contains("50 % of cuBLASLt"));
    assert!(html.contains("Throughput; bands: cuBLASLt"));
}
