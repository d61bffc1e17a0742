//! Closing, apart from the other cases because nothing can follow it.

use futures_util::StreamExt;

use super::outcome::{Miss, Outcome, Violation, ensure, ensure_eq};
use super::subject::Subject;
use super::trial::{Trial, value};
use crate::error::{ErrorKind, Result};
use crate::record::{Put, Range};

/// Closes the store for good, and checks that every later call says so. Not part of [`run`](super::run).
pub async fn check_closing(subject: Subject) -> Result<(), Violation> {
    closed_store_says_so(Trial::new(subject, 0)).await.map_err(|miss| {
        let message = match miss {
            Miss::Broken(message) => message,
            Miss::TooSlow => "could not be decided".into(),
        };
        Violation { case: "closed_store_says_so", message }
    })
}

async fn closed_store_says_so(t: Trial) -> Outcome {
    let (store, key, held) = (t.store(), t.key("k"), value("held"));
    t.insert(&key, &held, t.long()).await?;
    store.close().await?;
    store.close().await?;
    let put = Put { key: key.clone(), value: held.clone(), expiry: t.long() };
    closed("get", store.get(&key).await)?;
    closed("get_batch", store.get_batch(std::slice::from_ref(&key)).await)?;
    closed("put_batch", store.put_batch(vec![put]).await)?;
    closed("insert", store.insert_if_not_exists(&key, held.clone(), t.long()).await)?;
    closed("swap", store.compare_and_swap(&key, &held, held.clone(), t.long()).await)?;
    closed("delete", store.compare_and_delete(&key, &held).await)?;
    closed("query_ttl", store.query_ttl(&key).await)?;
    match store.read(Range::all(t.partition())?).next().await {
        Some(item) => closed("read", item),
        None => Err(Miss::Broken("read after close ends as if there were nothing".into())),
    }
}

fn closed<T>(what: &str, result: Result<T>) -> Outcome {
    match result {
        Ok(_) => ensure!(false, "{what} after close succeeded"),
        Err(error) => ensure_eq!(error.kind(), ErrorKind::Closed, "kind of the error of {what} after close"),
    }
    Ok(())
}
