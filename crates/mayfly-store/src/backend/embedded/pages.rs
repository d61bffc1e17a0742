//! A range read as a stream: keys are taken from the index page by page, without a lock in between, and each
//! record is resolved when the reader gets to it.

use std::future::Future;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::index::Slot;
use crate::error::Result;
use crate::record::{Key, Record};
use crate::store::RecordStream;

/// How many keys the first page of a range read holds; each next one holds twice as many, up to the most.
const FIRST_PAGE: usize = 16;
const LARGEST_PAGE: usize = 256;

/// Keys with their slots, dead ones included, in order.
pub(crate) type Page<P> = Vec<(Key, Slot<P>)>;

/// Streams what `next_page` brings, page after page from the key the last one ended at, until one is empty.
/// `resolve` turns a slot into the record, as it is by then; none if it does not live any more.
pub(crate) fn read_pages<S, P, F>(
    store: Arc<S>,
    next_page: impl Fn(&S, Option<&Key>, usize) -> Result<Page<P>> + Send + 'static,
    resolve: impl Fn(Arc<S>, Key, Slot<P>) -> F + Send + 'static,
) -> RecordStream
where
    S: Send + Sync + 'static,
    P: Send + 'static,
    F: Future<Output = Result<Option<Record>>> + Send + 'static,
{
    let source = store.clone();
    let pages = stream::try_unfold((None, FIRST_PAGE), move |(after, limit): (Option<Key>, usize)| {
        let page = next_page(&source, after.as_ref(), limit).map(|page| {
            let last = page.last().map(|(key, _)| key.clone());
            last.map(|last| (page, (Some(last), (limit * 2).min(LARGEST_PAGE))))
        });
        std::future::ready(page)
    });
    pages
        .flat_map(|page: Result<Page<P>>| match page {
            Ok(page) => stream::iter(page).map(Ok).left_stream(),
            Err(error) => stream::iter([Err(error)]).right_stream(),
        })
        .filter_map(move |item| {
            let record = item.map(|(key, slot)| resolve(store.clone(), key, slot));
            async move {
                match record {
                    Ok(record) => record.await.transpose(),
                    Err(error) => Some(Err(error)),
                }
            }
        })
        .boxed()
}
