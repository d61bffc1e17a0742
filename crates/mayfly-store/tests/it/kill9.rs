//! A real process on a real directory, killed with SIGKILL under load, again and again.
//!
//! The process is this test program itself. It says what it is about to do and what was acknowledged through a
//! pipe; after the kill the directory is opened here and compared. `MAYFLY_KILL_CYCLES=n` sets how often.

#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mayfly_store::{Clock, Entry, Expiry, FileOptions, FileStore, Put, Store, SystemClock};

use crate::engine::{Engine, after, all, key, small, value};
use crate::sim_disk::Rng;

const CHILD: &str = "MAYFLY_KILL_CHILD";
const TASKS: u64 = 16;
const KEYS: u64 = 8;
/// How far two readings of the clocks may be apart before it matters, in ms.
const SLACK: u64 = 25;

fn options() -> FileOptions {
    small()
}

fn now() -> u64 {
    SystemClock.now().wall.as_millis()
}

/// One operation as it goes through the pipe: `name keys value ttl`, with `-` for none.
#[derive(Debug, Clone)]
struct Op {
    name: String,
    keys: Vec<String>,
    value: String,
    ttl: Option<u64>,
}

impl Op {
    fn any(rng: &mut Rng, value: &str) -> Self {
        let name = ["put", "insert", "insert", "swap", "swap", "delete", "batch"][rng.below(7) as usize];
        let count = if name == "batch" { 2 + rng.below(4) } else { 1 };
        let first = rng.below(KEYS);
        let keys = (0..count).map(|next| format!("k{}", (first + next) % KEYS)).collect();
        let ttl = match rng.below(10) {
            0..2 => None,
            2..7 if name != "batch" => Some(5 + rng.below(60)),
            _ => Some(600_000),
        };
        let value = format!("{value}{}", ".".repeat(rng.below(400) as usize));
        Self { name: name.into(), keys, value, ttl }
    }

    fn to_line(&self) -> String {
        let ttl = self.ttl.map_or("-".into(), |ttl| ttl.to_string());
        format!("{} {} {} {ttl}", self.name, self.keys.join(","), self.value)
    }

    fn from_words(words: &[&str]) -> Self {
        let [name, keys, value, ttl] = words else { panic!("a broken line: {words:?}") };
        let keys = keys.split(',').map(str::to_string).collect();
        Self { name: name.to_string(), keys, value: value.to_string(), ttl: ttl.parse().ok() }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).expect("the pipe is open until this process is killed");
}

#[test]
#[ignore = "the kill loop starts this one"]
fn process_under_load() {
    let Ok(settings) = std::env::var(CHILD) else { return };
    let (run, dir) = settings.split_once(' ').expect("a number and a directory");
    let run: u64 = run.parse().expect("the number of the run");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let store = Arc::new(FileStore::open(dir, options(), Arc::new(SystemClock)).expect("it opens"));
    say("ready");
    runtime.block_on(async {
        for task in 0..TASKS {
            tokio::spawn(work(store.clone(), run, task));
        }
        // The end comes from outside; this is for the case that nobody is left to send it.
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
}

async fn work(store: Arc<FileStore>, run: u64, task: u64) {
    let mut rng = Rng::new(run * 1000 + task);
    let partition = format!("t{task}");
    let mut held: BTreeMap<String, String> = BTreeMap::new();
    for record in all(&*store, partition.as_bytes()).await {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("only text was written");
        held.insert(text(record.key.sort()), text(&record.value));
    }
    for number in 0.. {
        let op = Op::any(&mut rng, &format!("{run}-{task}-{number}"));
        say(&format!("> {task} {} {}", now(), op.to_line()));
        let done = perform(&store, &partition, &op, &held).await;
        say(&format!("< {task} {} {}", now(), u8::from(done)));
        for key in op.keys.iter().filter(|_| done) {
            match op.name.as_str() {
                "delete" => _ = held.remove(key),
                _ => _ = held.insert(key.clone(), op.value.clone()),
            }
        }
    }
}

async fn perform(store: &FileStore, partition: &str, op: &Op, held: &BTreeMap<String, String>) -> bool {
    let expiry = op.ttl.map_or(Expiry::Never, after);
    let first = key(partition, &op.keys[0]);
    let old = value(held.get(&op.keys[0]).map_or("nothing", |held| held));
    let done = match op.name.as_str() {
        "insert" => store.insert_if_not_exists(&first, value(&op.value), expiry).await,
        "swap" => store.compare_and_swap(&first, &old, value(&op.value), expiry).await,
        "delete" => store.compare_and_delete(&first, &old).await,
        _ => {
            let put = |sort: &String| Put { key: key(partition, sort), value: value(&op.value), expiry };
            store.put_batch(op.keys.iter().map(put).collect()).await.map(|()| true)
        }
    };
    done.expect("a good disk takes every write")
}

/// What a key holds: its deadline lies between two times.
#[derive(Debug, Clone, PartialEq)]
struct Held {
    value: String,
    not_before: u64,
    not_after: u64,
}

#[derive(Debug, Default)]
struct Task {
    held: BTreeMap<String, Held>,
    under_way: Option<(u64, Op)>,
}

impl Task {
    fn begun(&mut self, time: u64, op: Op) {
        assert!(self.under_way.is_none(), "one after the other");
        self.under_way = Some((time, op));
    }

    fn acknowledged(&mut self, time: u64, done: bool) {
        let (begin, op) = self.under_way.take().expect("begun before it ended");
        if op.name == "insert" {
            match self.held.get(&op.keys[0]) {
                Some(held) if done => assert!(held.not_before <= time + SLACK, "{op:?} overwrote {held:?}"),
                Some(held) => assert!(held.not_after + SLACK > begin, "{op:?} met the expired {held:?}"),
                None => assert!(done, "{op:?} met a deleted record"),
            }
        }
        for key in op.keys.iter().filter(|_| done) {
            match op.name.as_str() {
                "delete" => _ = self.held.remove(key),
                _ => _ = self.held.insert(key.clone(), self.written(&op, begin, time)),
            }
        }
    }

    fn written(&self, op: &Op, begin: u64, end: u64) -> Held {
        let by = |time: u64| op.ttl.map_or(u64::MAX - SLACK, |ttl| time + ttl);
        Held { value: op.value.clone(), not_before: by(begin), not_after: by(end) }
    }

    /// Compares with what is there after a kill, and takes it over.
    async fn compare(&mut self, store: &FileStore, partition: &str) {
        let under_way = self.under_way.take();
        let mut found = BTreeMap::new();
        let mut new_ones = 0;
        for number in 0..KEYS {
            let sort = format!("k{number}");
            let before = now();
            let entry = store.get(&key(partition, &sort)).await.expect("a readable record");
            let new = under_way.as_ref().filter(|(_, op)| op.keys.contains(&sort));
            new_ones += usize::from(entry.as_ref().is_some_and(|entry| is_new(entry, new)));
            self.check_key(&sort, entry.as_ref(), new, before);
            if let Some(Entry { value, expires_at }) = entry {
                let value = String::from_utf8(value.to_vec()).expect("only text was written");
                let deadline = expires_at.map_or(u64::MAX - SLACK, |at| at.as_millis());
                found.insert(sort, Held { value, not_before: deadline, not_after: deadline });
            }
        }
        if let Some((_, op)) = under_way.filter(|(_, op)| op.name == "batch") {
            assert!(new_ones == 0 || new_ones == op.keys.len(), "{new_ones} records of a batch: {op:?}");
        }
        self.held = found;
    }

    fn check_key(&self, sort: &str, entry: Option<&Entry>, new: Option<&(u64, Op)>, before: u64) {
        let held = self.held.get(sort);
        match entry {
            Some(entry) if is_new(entry, new) => {}
            Some(entry) => {
                let held = held.unwrap_or_else(|| panic!("{sort}: {entry:?} is back from the dead"));
                assert_eq!(*entry.value, *held.value.as_bytes(), "{sort}: an older value is back");
                assert!(before < held.not_after + SLACK, "{sort}: {held:?} lives after its end, {before}");
            }
            None => {
                let replaced = new.is_some_and(|(begin, op)| {
                    op.name == "delete" || op.ttl.is_some_and(|ttl| begin + ttl <= now() + SLACK)
                });
                let expired = held.is_none_or(|held| held.not_before <= now() + SLACK);
                assert!(replaced || expired, "{sort}: the acknowledged {held:?} is lost; under way {new:?}");
            }
        }
    }
}

fn is_new(entry: &Entry, new: Option<&(u64, Op)>) -> bool {
    new.is_some_and(|(_, op)| op.name != "delete" && *entry.value == *op.value.as_bytes())
}

/// Runs the process and kills it after a while; the lines it said.
fn run_and_kill(dir: &Path, run: u64, rng: &mut Rng) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["kill9::process_under_load", "--exact", "--ignored", "--nocapture"])
        .env(CHILD, format!("{run} {}", dir.display()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut said = Vec::new();
    if rng.chance(85) {
        // One in seven dies before it is ready: in its recovery, or even earlier.
        said.extend(lines.by_ref().take_while(|line| line != "ready"));
    }
    let reader = std::thread::spawn(move || lines.collect::<Vec<_>>());
    std::thread::sleep(Duration::from_millis(rng.below(250)));
    child.kill().expect("it runs until it is killed");
    let status = child.wait().expect("it ends");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9),
        "it died by itself: {said:?}"
    );
    said.extend(reader.join().expect("the pipe was read"));
    said
}

fn replay(lines: &[String], tasks: &mut [Task]) {
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [">", task, time, op @ ..] => {
                let task: usize = task.parse().expect("a task's number");
                tasks[task].begun(time.parse().expect("a time"), Op::from_words(op));
            }
            ["<", task, time, done] => {
                let task: usize = task.parse().expect("a task's number");
                tasks[task].acknowledged(time.parse().expect("a time"), *done == "1");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_and_nothing_dead_is_back_after_kill_9() {
    let cycles = std::env::var("MAYFLY_KILL_CYCLES").map_or(25, |text| text.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a directory");
    let mut rng = Rng::new(now());
    let mut tasks: Vec<Task> = (0..TASKS).map(|_| Task::default()).collect();
    let mut acknowledged = 0;
    for cycle in 0..cycles {
        let lines = run_and_kill(dir.path(), cycle, &mut rng);
        acknowledged += lines.iter().filter(|line| line.starts_with('<')).count();
        replay(&lines, &mut tasks);
        let store =
            FileStore::open(dir.path(), options(), Arc::new(SystemClock)).expect("it opens after a kill");
        for (number, task) in tasks.iter_mut().enumerate() {
            task.compare(&store, &format!("t{number}")).await;
        }
        assert_eq!(store.figures().corruptions, 0, "cycle {cycle}: a kill is not corruption");
        if cycle % 10 == 9 {
            let report = store.verify(&mut |_| {}).expect("it can be verified");
            assert!(report.damaged.is_empty(), "cycle {cycle}: {report:?}");
        }
        if cycle % 3 == 0 {
            store.close().await.expect("it closes");
        }
    }
    eprintln!("{cycles} kills, {acknowledged} acknowledged writes, none lost, none back");
    assert!(acknowledged as u64 > cycles, "the processes did hardly anything");
}
