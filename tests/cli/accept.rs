//! `just gpu-accept` where there is no GPU to accept: what is missing is named, and what it writes is whole.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    cuda::toolkit,
    support::{Place, root},
};

/// The exit code, `accept.json` and the text of its first check.
fn accept(adapt: impl FnOnce(&mut Command)) -> (Option<i32>, Value, String) {
    let place = Place::new();
    let out = place.path("out");
    let mut command = Command::new(root().join(".ci/gpu-accept"));
    command
        .arg(&out)
        .env("MANTISSA", env!("CARGO_BIN_EXE_mantissa"))
        .env("DISTURBANCE", "/nowhere")
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("CUDA_PATH");
    adapt(&mut command);
    let code = command.output().unwrap().status.code();
    let json = fs::read_to_string(out.join("accept.json")).unwrap();
    let told = fs::read_to_string(out.join("logs/devices.txt")).unwrap();
    assert_eq!(packed(&place.path("out.tar.gz"), "out/accept.json"), json);
    (code, serde_json::from_str(&json).unwrap(), told)
}

/// A script that stands for a program.
fn script(place: &Place, name: &str, text: &str) -> PathBuf {
    let program = place.path(name);
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// A file in an archive.
fn packed(archive: &Path, name: &str) -> String {
    let mut tar = Command::new("tar");
    let output = tar.arg("-xOzf").arg(archive).arg(name).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// One check is made, fails and names what is missing.
fn assert_missing(word: &str, adapt: impl FnOnce(&mut Command)) {
    let (code, json, told) = accept(adapt);
    assert_eq!(code, Some(4), "{word}: {told}");
    assert_eq!(json["passed"], false, "{json}");
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 1, "{json}");
    assert_eq!(
        (&checks[0]["check"], &checks[0]["passed"]),
        (&"devices".into(), &false.into())
    );
    assert!(told.contains(word), "{word}: {told}");
    let of_nvml = told.contains("NVML    not available: ") && told.contains("driver capability `utility`");
    assert!(of_nvml || told.contains("NVML    1 devices"), "{told}");
}

#[test]
fn each_missing_part_of_a_cuda_machine_is_named_and_nothing_else_is_tried() {
    if Path::new("/proc/driver/nvidia").exists() {
        println!("skipped in part: this machine has a driver, which cannot be hidden");
    } else {
        let empty = tempfile::tempdir().unwrap();
        assert_missing("install the driver", |command| {
            command.env("LD_LIBRARY_PATH", empty.path());
        });
    }
    assert_missing("CUDA_PATH", |command| {
        command
            .env("LD_LIBRARY_PATH", toolkit())
            .env("CUDA_PATH", "/nowhere");
    });
    let without_compiler = tempfile::tempdir().unwrap();
    let driver = without_compiler.path().join("libcuda.so");
    fs::copy(toolkit().join("libcuda.so"), driver).unwrap();
    assert_missing("libnvrtc", |command| {
        command
            .env("LD_LIBRARY_PATH", without_compiler.path())
            .env("CUDA_PATH", toolkit())
            .env("MANTISSA_UNCHECKED_KERNELS", "1");
    });
    assert_missing("driver", |command| {
        command
            .env("LD_LIBRARY_PATH", toolkit())
            .env("CUDA_PATH", toolkit())
            .env("MANTISSA_UNCHECKED_KERNELS", "1")
            .env("STANDIN_INIT", "100");
    });
}

/// What the script makes of answers that only a GPU gives: here a stand-in for the program gives them.
#[test]
fn every_check_is_made_whatever_came_of_the_others_and_its_outcome_written_down() {
    let place = Place::new();
    let program = script(
        &place,
        "mantissa",
        r#"#!/bin/sh
test "$1" = "$FAILING" && exit 3
case "$1" in
devices)
    echo 'cuda    a card that is not there'
    echo "NVML    $NVML" ;;
run)
    while test "$1" != --out; do shift; done
    mkdir -p "$2" && echo "{\"kind\":\"clock\",\"detail\":\"$CLOCK\"}" >"$2/records.jsonl" ;;
esac
"#,
    );
    let accept = |failing: &str, clock: &str, nvml: &str| {
        accept(|command| {
            command
                .env("MANTISSA", &program)
                .env("FAILING", failing)
                .env("CLOCK", clock)
                .env("NVML", nvml);
        })
    };
    let failed = |json: &Value| -> Vec<String> {
        let checks = json["checks"].as_array().unwrap().iter();
        let failed = checks.filter(|check| check["passed"] == false);
        failed
            .map(|check| check["check"].as_str().unwrap().to_owned())
            .collect()
    };

    let (code, json, _) = accept("nothing", "CUDA events", "1 devices");
    assert_eq!((code, &json["passed"]), (Some(0), &true.into()), "{json}");
    let all = json["checks"].as_array().unwrap().len();
    assert!(all >= 8, "{json}");

    let (code, json, _) = accept("probe", "CUDA events", "1 devices");
    assert_eq!((code, &json["passed"]), (Some(1), &false.into()), "{json}");
    assert_eq!(json["checks"].as_array().unwrap().len(), all);
    assert_eq!(failed(&json), ["probe", "probe-unfused", "probe-attention"]);
    assert_eq!(json["checks"][2]["exit"], 3);

    let (code, json, _) = accept("nothing", "a wall clock", "1 devices");
    assert_eq!(code, Some(1));
    assert_eq!(failed(&json), ["clock"]);

    let (code, json, _) = accept("nothing", "CUDA events", "not available: no library");
    assert_eq!(code, Some(1));
    assert_eq!(failed(&json), ["nvml"]);
}

#[test]
fn what_sampling_costs_is_measured_beside_the_gpu_where_the_example_is_built() {
    let place = Place::new();
    let devices = "cuda    a card that is not there\nNVML    1 devices\n        Stand-in A, GPU-aa11, PCI 00000000:17:00.0";
    let program = script(&place, "mantissa", &format!("#!/bin/sh\necho '{devices}'\n"));
    let example = script(&place, "disturbance", "#!/bin/sh\ntest \"$*\" = '300 GPU-aa11'\n");
    let measured = |example: &Path| {
        let (_, json, _) = accept(|command| {
            command.env("MANTISSA", &program).env("DISTURBANCE", example);
        });
        let mut checks = json["checks"].as_array().unwrap().iter();
        let check = checks.find(|check| check["check"] == "disturbance");
        check.map(|check| check["passed"] == true)
    };
    assert_eq!(measured(&example), Some(true));
    assert_eq!(measured(Path::new("/nowhere")), None);
}

/// No GPU is needed to see that the program knows every flag that the script gives it: it would end with 2 if not, and
/// ends with 4, since the device is not there.
#[test]
fn the_program_understands_every_command_of_the_script() {
    let place = Place::new();
    let text = format!(
        "#!/bin/sh\ntest \"$1\" = devices && echo 'cuda    a card that is not there' && exit\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_mantissa")
    );
    let program = script(&place, "mantissa", &text);
    let (code, json, _) = accept(|command| {
        command.env("MANTISSA", &program).env("CUDA_VISIBLE_DEVICES", "");
    });
    assert_eq!(code, Some(1), "{json}");
    let checks = json["checks"].as_array().unwrap().iter();
    let ends: Vec<(&str, i64)> = checks
        .map(|check| (check["check"].as_str().unwrap(), check["exit"].as_i64().unwrap()))
        .filter(|(name, _)| !["devices", "nvml", "clock", "eight-minutes"].contains(name))
        .collect();
    assert!(ends.len() >= 6, "{json}");
    assert!(ends.iter().all(|(_, exit)| *exit == 4), "{ends:?}");
}
