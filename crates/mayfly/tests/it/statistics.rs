//! `stats`: figures, the horizon as bars, no colours in a pipe.

use mayfly_store::{Expiry, Ttl};
use serde_json::json;

use crate::shell::Shell;

fn after(text: &str) -> Expiry {
    Expiry::After(text.parse::<Ttl>().unwrap())
}

async fn filled() -> Shell {
    let shell = Shell::new();
    shell.fill("minutes", 1000, b"0123456789", after("4m")).await;
    shell.fill("hours", 250, b"0123456789", after("5h")).await;
    shell.fill("for ever", 3, b"0123456789", Expiry::Never).await;
    shell
}

#[tokio::test]
async fn the_horizon_counts_records_by_the_time_they_have_left() {
    let (report, code) = filled().await.json(&["stats"]);
    assert_eq!((code, &report["ok"], &report["records"]), (0, &json!(true), &json!(1253)));
    let slices = report["horizon"].as_array().unwrap();
    let occupied: Vec<_> = slices.iter().filter(|slice| slice["records"] != 0).collect();
    let shown: Vec<_> =
        occupied.iter().map(|slice| (&slice["label"], &slice["within_ms"], &slice["records"])).collect();
    assert_eq!(
        shown,
        [
            (&json!("5 min"), &json!(300_000), &json!(1000)),
            (&json!("6 h"), &json!(21_600_000), &json!(250)),
            (&json!("never"), &json!(null), &json!(3)),
        ]
    );
    let bytes = |list: &serde_json::Value, field: &str| -> u64 {
        list.as_array().unwrap().iter().map(|item| item[field].as_u64().unwrap()).sum()
    };
    assert_eq!(bytes(&report["horizon"], "bytes"), report["live_bytes"].as_u64().unwrap());
    assert_eq!(bytes(&report["segments"], "live_bytes"), report["live_bytes"].as_u64().unwrap());
    assert_eq!(bytes(&report["segments"], "live_records"), 1253);
}

#[tokio::test]
async fn the_horizon_is_drawn_in_bars_that_fit_the_width() {
    let shell = filled().await;
    for width in [60_usize, 80, 132] {
        let output = shell.command(&["stats"]).env("COLUMNS", width.to_string()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().all(|line| line.chars().count() < width), "{text}");
        let bar = |label: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(label)).unwrap();
            line.chars().filter(|letter| *letter == '█').count()
        };
        assert!(bar("5 min") > 10 && bar("1 h") == 0, "{text}");
        assert_eq!(bar("6 h"), bar("5 min") / 4, "{text}");
    }
}

#[tokio::test]
async fn a_pipe_gets_no_colours() {
    let text = filled().await.ok(&["stats"]).text();
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.contains("records   1,253\n"), "{text}");
}

#[test]
fn an_empty_store_has_figures_too() {
    let shell = Shell::new();
    shell.ok(&["put", "a", "x", "--ttl", "1ms"]);
    assert!(shell.ok(&["stats"]).text().contains("records   0\n"));
}
