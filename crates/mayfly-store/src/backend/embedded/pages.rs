//! A range read as a stream of pages: no lock is held between them, and no record outlives its deadline in one.

use std::future::Future;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::deadline::Deadline;
use super::timeline::Now;
use crate::error::Result;
use crate::record::{Entry, Key, Record};
use crate::store::RecordStream;

/// How many records the first page of a range read holds; each next one holds twice as many, up to the most.
const FIRST_PAGE: usize = 16;
const LARGEST_PAGE: usize = 256;

/// Records with their deadlines, and the last key that was looked at.
pub(crate) type Page = (Vec<(Record, Deadline)>, Key);

/// Streams what `next_page` brings, page after page from the key it ended at, until there is none. A slow
/// reader may reach a record after its deadline: it is left out then.
pub(crate) fn read_pages<S, F, G>(
    store: Arc<S>,
    next_page: impl Fn(Arc<S>, Option<Key>, usize) -> F + Send + 'static,
    now: impl Fn(&S) -> Now + Send + 'static,
    look_again: impl Fn(Arc<S>, Key) -> G + Send + 'static,
) -> RecordStream
where
    S: Send + Sync + 'static,
    F: Future<Output = Result<Option<Page>>> + Send + 'static,
    G: Future<Output = Result<Option<Entry>>> + Send + 'static,
{
    let source = store.clone();
    let pages = stream::try_unfold((None, FIRST_PAGE), move |(after, limit)| {
        let page = next_page(source.clone(), after, limit);
        let larger = (limit * 2).min(LARGEST_PAGE);
        async move { Ok(page.await?.map(|(records, last)| (records, (Some(last), larger)))) }
    });
    pages
        .flat_map(|page: Result<Vec<_>>| match page {
            Ok(records) => stream::iter(records).map(Ok).left_stream(),
            Err(error) => stream::iter([Err(error)]).right_stream(),
        })
        .filter_map(move |item| {
            let again = match &item {
                Ok((record, deadline)) if deadline.is_past(now(&store)) => {
                    Some((record.key.clone(), look_again(store.clone(), record.key.clone())))
                }
                _ => None,
            };
            async move {
                match again {
                    None => Some(item.map(|(record, _)| record)),
                    Some((key, entry)) => match entry.await {
                        Ok(entry) => {
                            entry.map(|Entry { value, expires_at }| Ok(Record { key, value, expires_at }))
                        }
                        Err(error) => Some(Err(error)),
                    },
                }
            }
        })
        .boxed()
}
