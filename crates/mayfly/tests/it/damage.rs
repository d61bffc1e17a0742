//! `verify`: silence on a sound store, and every damaged place on a broken one.

use std::fs;
use std::path::PathBuf;

use mayfly_store::{Expiry, Ttl};
use serde_json::json;

use crate::shell::Shell;

async fn filled() -> Shell {
    let shell = Shell::new();
    let hour = Expiry::After("1h".parse::<Ttl>().unwrap());
    shell.fill("s", 500, &[b'x'; 1000], hour).await;
    shell
}

/// The file that holds most of the records.
fn largest_file(shell: &Shell) -> PathBuf {
    let files = fs::read_dir(shell.data()).unwrap().map(|entry| entry.unwrap());
    files.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap().path()
}

#[tokio::test]
async fn a_sound_store_is_said_to_be_sound() {
    let shell = filled().await;
    let text = shell.ok(&["verify"]).text();
    assert!(text.ends_with(": no damage\n"), "{text}");
    let (report, code) = shell.json(&["verify"]);
    assert_eq!((code, &report["ok"], &report["damaged"]), (0, &json!(true), &json!([])));
    assert!(report["frames"].as_u64().unwrap() >= 500, "{report}");
    assert!(report["bytes"].as_u64().unwrap() >= 500_000, "{report}");
}

#[tokio::test]
async fn a_flipped_bit_is_found_and_the_other_records_stay_readable() {
    let shell = filled().await;
    let file = largest_file(&shell);
    let mut bytes = fs::read(&file).unwrap();
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(&file, &bytes).unwrap();

    let answer = shell.run(&["verify"]);
    assert_eq!(answer.code, 5, "{answer:?}");
    assert!(answer.text().contains(" damaged place"), "{answer:?}");
    let (report, code) = shell.json(&["verify"]);
    assert_eq!((code, &report["ok"]), (5, &json!(false)));
    let damage = &report["damaged"][0];
    assert_eq!(damage["file"], file.file_name().unwrap().to_str().unwrap());
    let (offset, length) = (damage["offset"].as_u64().unwrap(), damage["bytes"].as_u64().unwrap());
    assert!((offset..offset + length).contains(&(place as u64)), "{report}");

    let readable = (0..500).step_by(50).filter(|number| {
        let answer = shell.run(&["get", &format!("s/{number:08}")]);
        answer.code == 0 && answer.bytes == [b'x'; 1000]
    });
    assert!(readable.count() >= 9);
}
