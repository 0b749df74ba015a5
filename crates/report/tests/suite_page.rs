//! Tests of the page of a suite: its tiles, the published bars, and what would decide the undecided comparisons.

use std::{collections::BTreeMap, fs, path::Path};

use mantissa_core::{Axis, Cell, Metric, MetricName, Samples, Series, SeriesName, Status};
use mantissa_report::{Budget, Report, Run, advise, figures, html, render_single_file};

use crate::advice::{
    BF16_MIXED, F32, F32_HIGH, add_five_processes, add_process, diverge, empty_run, matmul_run,
    run_with_faster_setting,
};
use crate::support::{RunBuilder, cell, invented, record, run, suite, train_metrics, workload};
use crate::traces::svg_of;

/// Returns the page of a run without figures, in plain text apart from the tags.
fn page(run: &Run) -> String {
    let page = html(&Report::new(run).unwrap(), &[]).unwrap();
    let (page, _) = page.split_once("<script").unwrap();
    page.replace("&#x27;", "'").replace("&#x2f;", "/")
}

/// Returns the tiles of a page: title and markup.
fn tiles(page: &str) -> Vec<(&str, &str)> {
    let tiles = page.split("<div class=\"tile\"><h3>").skip(1);
    tiles
        .map(|text| {
            let (title, rest) = text.split_once("</h3>").unwrap();
            (title, rest.split_once("</div>").unwrap().0)
        })
        .collect()
}

/// Returns the headlines of a tile, without the label of the kind of work.
fn headlines(tile: &str) -> Vec<&str> {
    let lines = tile.split("<p class=\"headline\">").skip(1);
    lines
        .map(|text| text.split_once(" <span class=\"certainty").unwrap().0)
        .map(|text| text.rsplit_once("</small> ").map_or(text, |(_, name)| name))
        .collect()
}

#[test]
fn tiles_show_the_setting_and_the_numbers_of_the_advice() {
    let run = run_with_faster_setting();
    let page = page(&run);
    let tiles = tiles(&page);
    let titles: Vec<&str> = tiles.iter().map(|(title, _)| *title).collect();
    assert_eq!(
        titles,
        [
            "Fastest setting shown to keep the accuracy",
            "Least memory shown to keep the accuracy",
            "What failed"
        ]
    );
    let advice = advise(&Report::new(&run).unwrap(), &Budget::default());
    let work = &advice.workloads[0].choices[0];
    let chosen = work.chosen.as_deref().unwrap();
    assert_eq!(headlines(tiles[0].1), [chosen]);
    let evidence = work.evidence.iter().find(|one| one.setting == chosen).unwrap();
    let speed = evidence.speed.as_ref().unwrap();
    let speed = format!(
        "<li>{:.2}× ({:.2}–{:.2}) as fast as 32-true",
        speed.value,
        speed.low.unwrap(),
        speed.high.unwrap()
    );
    assert!(tiles[0].1.contains(&speed), "{speed}: {}", tiles[0].1);
    let loss = 100.0 * evidence.accuracy_loss.as_ref().unwrap().high.unwrap();
    assert!(
        tiles[0]
            .1
            .contains(&format!("loss of up to {loss:.2} points not excluded"))
    );
    let chosen = run
        .records
        .iter()
        .find(|record| record.cell.id == evidence.cells[0])
        .unwrap();
    assert!(
        tiles[0]
            .1
            .contains(&format!("<code data-copy>{}</code>", chosen.command))
    );
    // The setting with the least memory loses accuracy.
    assert_eq!(headlines(tiles[1].1), ["None shown yet"]);
    // Only a setting that qualifies has a colour.
    assert!(
        tiles[0]
            .1
            .contains("<span class=\"certainty repeated\">repeated</span>")
    );
    assert!(tiles[1].1.contains("<span class=\"certainty \">repeated</span>"));
    assert!(
        tiles[1].1.contains("bf16-mixed · highest: 0.50×")
            && tiles[1].1.contains("but its accuracy changes by −10")
    );
    assert_eq!(headlines(tiles[2].1), ["Nothing failed"]);
}

#[test]
fn the_setting_with_the_least_memory_is_within_the_budget() {
    let mut run = empty_run();
    add_five_processes(&mut run, F32, 10.0, 100, 4e9);
    add_five_processes(&mut run, F32_HIGH, 10.0, 100, 3e9);
    add_five_processes(&mut run, BF16_MIXED, 10.0, 200, 1e9);
    let page = page(&run);
    let (_, memory) = tiles(&page)[1];
    assert_eq!(headlines(memory), ["32-true · high"]);
    assert!(
        memory.contains("<li>3.00 GB (host, worker process)</li>"),
        "{memory}"
    );
    assert!(
        memory.contains("<li>0.75× (0.75–0.75) the peak memory of 32-true"),
        "{memory}"
    );
}

#[test]
fn no_tile_claims_kept_accuracy_for_an_unproven_setting() {
    let mut lossy = empty_run();
    add_five_processes(&mut lossy, F32, 10.0, 100, 4e9);
    add_five_processes(&mut lossy, BF16_MIXED, 4.0, 115, 2e9);
    let mut once = empty_run();
    add_process(&mut once, F32, |_| {});
    add_process(&mut once, BF16_MIXED, |record| {
        train_metrics(record, 4.0, 895, 5e8)
    });
    let mut named = 0;
    for run in [run_with_faster_setting(), lossy, once, few_examples(), invented()] {
        let page = page(&run);
        let advice = advise(&Report::new(&run).unwrap(), &Budget::default());
        let kept = |name: &&str| {
            let work = advice.workloads.iter().flat_map(|workload| &workload.choices);
            let evidence = work.flat_map(|work| &work.evidence);
            evidence
                .into_iter()
                .any(|one| one.setting == **name && one.kept && one.accuracy_loss.is_some())
        };
        for (title, tile) in tiles(&page) {
            let claims = title.ends_with("shown to keep the accuracy");
            for headline in headlines(tile)
                .iter()
                .filter(|name| claims && **name != "None shown yet")
            {
                assert!(kept(headline), "{headline}: {tile}");
                named += 1;
            }
        }
    }
    assert!(named > 0, "no tile names a setting");
}

/// Creates a run whose accuracies are known over only 60 examples.
fn few_examples() -> Run {
    let mut run = empty_run();
    for (axes, hits) in [(F32, 55), (BF16_MIXED, 54)] {
        add_process(&mut run, axes, |record| {
            let accuracy = mantissa_analysis::wilson(hits, 60).unwrap();
            record.metrics.insert(
                MetricName::TestAccuracy,
                accuracy.metric(MetricName::TestAccuracy),
            );
        });
    }
    run
}

#[test]
fn an_accuracy_over_few_examples_is_not_measured() {
    let page = page(&few_examples());
    let tiles = tiles(&page);
    assert_eq!(tiles[0].0, "Fastest setting");
    assert!(tiles[0].1.contains("accuracy not measured"), "{}", tiles[0].1);
    let table = page.split_once("<table class=\"results\"").unwrap().1;
    let table = table.split_once("</table>").unwrap().0;
    assert_eq!(
        table
            .matches("not measured<small>fewer than 100 examples</small>")
            .count(),
        2
    );
    // 55 and 54 of 60 examples.
    assert!(!page.contains("91.67") && !page.contains("90.00 %"), "{table}");
}

#[test]
fn a_kernel_has_an_error_and_no_accuracy() {
    let page = page(&matmul_run());
    let tiles = tiles(&page);
    let titles: Vec<&str> = tiles.iter().map(|(title, _)| *title).collect();
    assert_eq!(titles, ["Fastest setting", "What failed"]);
    // It ran fastest but is not shown to be faster, so the tile names no setting and has no colour.
    assert_eq!(headlines(tiles[0].1), ["None shown yet"]);
    assert!(
        tiles[0].1.contains("bf16-true: 4.00× (measured once)")
            && tiles[0].1.contains("relative error 2.00×10⁻³")
    );
    assert!(!tiles[0].1.contains("accuracy"), "{}", tiles[0].1);
    assert!(
        tiles[0]
            .1
            .contains("<li>bf16-true ran fastest, not shown to be faster</li>"),
        "{}",
        tiles[0].1
    );
    assert!(
        tiles[0]
            .1
            .contains("<span class=\"certainty \">measured once</span>"),
        "{}",
        tiles[0].1
    );
}

#[test]
fn what_failed_lists_each_status_with_its_reason() {
    let mut run = empty_run();
    add_process(&mut run, F32, |_| {});
    let failed = [
        ("16-true", Status::Diverged, "the loss was not finite from step 3"),
        ("bf16-true", Status::Oom, "no memory for 3 GB"),
        ("64-true", Status::Timeout, "killed after 10 s"),
    ];
    for (precision, status, why) in failed {
        add_process(&mut run, &[(Axis::Precision, precision)], |record| {
            (record.status, record.reason) = (status, Some(why.to_owned()));
        });
    }
    let skipped = cell("s", &workload("w"), &[(Axis::Precision, "16-mixed")]);
    run.plan(&skipped, Some("no kernel"));
    let html = page(&run);
    let (_, tile) = tiles(&html)[2];
    for (name, status, why) in failed {
        assert!(headlines(tile).contains(&name), "{tile}");
        assert!(tile.contains(&format!("<li>{status}: {why}</li>")), "{tile}");
    }
    // Three entries have room. The skipped setting is the last one.
    assert!(tile.contains("1 more in the table."), "{tile}");
    run.records.retain(|record| record.status != Status::Timeout);
    let timed_out = |cell: &Cell| cell.setting.precision().name() == "64-true";
    run.plan.cells.retain(|planned| !timed_out(&planned.cell));
    assert!(page(&run).contains("<li>skipped: no kernel</li>"));
}

#[test]
fn settings_that_failed_for_the_same_reason_are_one_entry() {
    let mut run = empty_run();
    add_process(&mut run, F32, |_| {});
    add_process(&mut run, BF16_MIXED, diverge);
    add_process(&mut run, F32_HIGH, diverge);
    let page = page(&run);
    let (_, tile) = tiles(&page)[2];
    assert_eq!(headlines(tile), ["bf16-mixed · highest, 32-true · high"]);
}

/// Published training times of the article by precision and matmul, as written in the reference file.
fn published_seconds() -> BTreeMap<(String, String), f64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/distilbert-imdb.toml");
    let file: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let rows = file["row"].as_array().unwrap().iter();
    let text = |row: &toml::Value, axis: &str| row["setting"][axis].as_str().unwrap().to_owned();
    let seconds = |row: &toml::Value| {
        let value = &row["metrics"]["train_seconds"];
        value
            .as_float()
            .or(value.as_integer().map(|seconds| seconds as f64))
            .unwrap()
    };
    rows.map(|row| ((text(row, "precision"), text(row, "matmul")), seconds(row)))
        .collect()
}

#[test]
fn published_bars_have_the_ratios_of_the_reference_file() {
    let run = invented();
    let folder = tempfile::tempdir().unwrap();
    render_single_file(&run, folder.path()).unwrap();
    let text = fs::read_to_string(folder.path().join("figures/article-times.csv")).unwrap();
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    let bars: BTreeMap<&str, f64> = rows
        .iter()
        .filter(|row| row["name"] == "published_speed")
        .map(|row| (row["series"].as_str(), row["value"].parse().unwrap()))
        .collect();
    let published = published_seconds();
    assert_eq!(bars.len(), published.len());
    let base = published[&("32-true".to_owned(), "highest".to_owned())];
    let drawn = figures(&Report::new(&run).unwrap());
    let svg = svg_of(&drawn, "article-times");
    let width = |title: &str| {
        let (_, after) = svg
            .split_once(&format!("<title>{title}</title>"))
            .unwrap_or_else(|| panic!("{title}"));
        let (_, after) = after.split_once(" width=\"").unwrap();
        after.split_once('"').unwrap().0.parse::<f64>().unwrap()
    };
    let measured = width("32-true · highest: 2.85 min");
    for ((precision, matmul), seconds) in &published {
        let has_choice = !precision.ends_with("-true") || precision == "32-true";
        let label = match has_choice {
            true => format!("{precision} · {matmul}, published"),
            false => format!("{precision}, published"),
        };
        let ratio = base / seconds;
        assert!((bars[label.as_str()] - ratio).abs() < 1e-9, "{label}: {bars:?}");
        // The measured bar of the baseline, divided by the published speed. Ends of bars are rounded to steps of the grid.
        let bar = width(&format!("{label}: {ratio:.2}×"));
        assert!(
            (bar - measured / ratio).abs() < 2.0,
            "{label}: {bar} of {measured}"
        );
    }
}

#[test]
fn there_are_no_published_bars_without_the_published_baseline() {
    let mut run = invented();
    let is_baseline = |cell: &Cell| {
        cell.suite == "article"
            && cell.setting.precision().name() == "32-true"
            && cell.setting.matmul().name() == "highest"
    };
    for record in run.records.iter_mut().filter(|record| is_baseline(&record.cell)) {
        record.status = Status::Failed;
    }
    let drawn = figures(&Report::new(&run).unwrap());
    let article = drawn.iter().find(|figure| figure.id == "article-times").unwrap();
    let svg = article.canvas.svg().unwrap();
    assert!(
        !svg.contains("published"),
        "the ratios would be relative to another baseline"
    );
}

/// Adds a process of a setting whose telemetry spans `seconds`, if known.
fn add_traced(run: &mut Run, axes: &[(Axis, &str)], (seed, repeat): (u64, u32), seconds: Option<f64>) {
    let cell = cell("s", &workload("w"), axes);
    let cell = Cell::new("s", cell.workload, cell.setting, seed);
    let mut record = record(&cell, Status::Ok, None);
    train_metrics(&mut record, 10.0 + f64::from(repeat), 900, 1e9);
    record.repeat = repeat;
    if repeat == 0 {
        run.plan(&cell, None);
    }
    let samples = seconds.map(|seconds| {
        let mut series = Series::new(SeriesName::HostBytes);
        series.push(0.0, 1e9);
        series.push(seconds, 1e9);
        Samples {
            series: vec![series],
            ..Samples::default()
        }
    });
    run.measured(record, samples);
}

const SETTINGS: [&[(Axis, &str)]; 3] = [F32, F32_HIGH, BF16_MIXED];

#[test]
fn what_would_decide_it_is_stated_once_with_the_time_of_the_missing_repeats() {
    let mut run = empty_run();
    run.name = "a run".into();
    for axes in SETTINGS {
        add_traced(&mut run, axes, (123, 0), Some(100.0));
    }
    // Two comparisons: with four processes each, the smallest p-value is 2 / 70, doubled by the correction. Five are enough (4 / 252). The
    // four missing repeats of three cells take 1,200 s.
    let html = page(&run);
    assert_eq!(html.matches("Undecided comparisons").count(), 1);
    assert_eq!(html.matches("--repeats").count(), 1);
    assert!(
        html.contains("2 of 2 speed comparisons have too few processes to detect a difference. 5 repeats of each cell would be enough to detect a clear one (about 20 minutes)."),
        "{html}"
    );
    assert!(html.contains("<code data-copy>mantissa run --resume 'reports/a run' --repeats 5</code>"));
    // A second repeat of one cell that took 260 s: 4 · 100 + 4 · 100 + 3 · 180 s, rounded up to minutes.
    add_traced(&mut run, F32, (123, 1), Some(260.0));
    assert!(page(&run).contains("(about 23 minutes)"));
    run.environment
        .command
        .extend(["--out".into(), "runs/mine".into()]);
    assert!(page(&run).contains("mantissa run --resume runs/mine --repeats 5"));
    // The duration of one cell is unknown.
    run.digests.retain(|(id, _), _| *id != run.records[1].cell.id);
    assert!(page(&run).contains("enough to detect a clear one."));
}

#[test]
fn seeds_count_as_processes_of_a_setting() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision, Axis::Seed])]);
    for axes in [F32, BF16_MIXED] {
        for seed in [1, 2] {
            add_traced(&mut run, axes, (seed, 0), Some(30.0));
        }
    }
    // One comparison needs four processes on each side, which two repeats of two seeds are. Four processes of 30 s are missing.
    let html = page(&run);
    assert!(
        html.contains("2 repeats of each cell would be enough to detect a clear one (about 2 minutes)."),
        "{html}"
    );
}

#[test]
fn decided_speeds_need_no_repeats() {
    let page = page(&run_with_faster_setting());
    assert!(
        !page.contains("Undecided comparisons") && !page.contains("--repeats"),
        "{page}"
    );
}

#[test]
fn a_reading_without_examples_has_no_kept_accuracy() {
    let mut run = empty_run();
    for axes in [F32, BF16_MIXED] {
        add_process(&mut run, axes, |record| {
            let reading = Metric::reading(MetricName::TestAccuracy, 0.9, "invented");
            record.metrics.insert(MetricName::TestAccuracy, reading);
        });
    }
    let page = page(&run);
    assert_eq!(tiles(&page)[0].0, "Fastest setting");
}

#[test]
fn results_precede_details_and_details_are_folded() {
    let run = run_with_faster_setting();
    let report = Report::new(&run).unwrap();
    let drawn = figures(&report);
    let pictures: Vec<_> = drawn.iter().map(|figure| (figure, String::new())).collect();
    let page = html(&report, &pictures).unwrap();
    let parts = [
        "<ul class=\"measured\">",
        "<div class=\"tiles\">",
        "id=\"figure-s-times\"",
        "<table class=\"results\"",
        "<table class=\"evidence\">",
        "<summary>More figures",
        "id=\"figure-s-pareto\"",
        "<details class=\"method\">",
        "<details id=\"formats\">",
        "<details id=\"environment\">",
        "<details id=\"cells\">",
    ];
    let places: Vec<Option<usize>> = parts.iter().map(|part| page.find(part)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}"
    );
    // Every setting of the advice has a row, with the numbers of `mantissa advise`.
    let advice = advise(&report, &Budget::default());
    let (_, table) = page.split_once("<table class=\"evidence\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    for one in &advice.workloads[0].choices[0].evidence {
        let (_, row) = table
            .split_once(&format!("<tr><td class=\"left\">{}</td>", one.setting))
            .unwrap();
        let (row, _) = row.split_once("</tr>").unwrap();
        let speed = format!("<td class=\"right\">{:.2}×", one.speed.as_ref().unwrap().value);
        assert!(row.contains(&speed), "{speed}: {row}");
    }
}
