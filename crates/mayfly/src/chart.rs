//! The expiry horizon as a bar chart. Pure: figures and a width in, lines out.

use mayfly_store::{Horizon, HorizonSlice};

use crate::screen::{count, size};

/// One line of the chart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Label and figures, aligned.
    pub(crate) figures: String,
    /// The bar, whose length is the share of the longest.
    pub(crate) bar: String,
}

/// The title of the columns and one row for each slice between the first and the last that has records.
pub(crate) fn chart(horizon: &Horizon, width: usize) -> Option<(String, Vec<Row>)> {
    let occupied = |slice: &HorizonSlice| slice.records > 0;
    let first = horizon.slices.iter().position(occupied)?;
    let last = horizon.slices.iter().rposition(occupied)?;
    // A row for each step of time even where it is empty: a gap in time should look like one. What never expires
    // is no step of time and stands alone.
    let slices = horizon.slices[first..=last].iter().enumerate();
    let slices: Vec<_> = slices
        .map(|(place, slice)| (first + place, slice))
        .filter(|(place, slice)| occupied(slice) || *place < last_timed(horizon))
        .map(|(_, slice)| slice)
        .collect();
    let most = slices.iter().map(|slice| slice.records).max()?;
    let figures =
        |label: &str, records: &str, bytes: &str| format!("{label:>10}  {records:>13}  {bytes:>10}  ");
    let title = figures("within", "records", "bytes");
    let room = width.saturating_sub(title.len() + 1).max(8);
    let rows = slices.iter().map(|slice| Row {
        figures: figures(slice.label, &count(slice.records), &size(slice.bytes)),
        bar: bar(slice.records, most, room),
    });
    Some((title, rows.collect()))
}

/// The place after the last slice of bounded time that has records.
fn last_timed(horizon: &Horizon) -> usize {
    let timed = |slice: &HorizonSlice| slice.records > 0 && slice.within.is_some();
    horizon.slices.iter().rposition(timed).map_or(0, |place| place + 1)
}

/// A bar in eighths of a letter. What is not nothing is at least a sliver.
fn bar(part: u64, whole: u64, room: usize) -> String {
    const SLIVERS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (u128::from(part) * room as u128 * 8).checked_div(u128::from(whole)).unwrap_or(0) as usize;
    let eighths = if part > 0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + SLIVERS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn horizon(records: &[(&str, u64)]) -> Horizon {
        let mut horizon = Horizon::default();
        for (label, records) in records {
            let slice = horizon.slices.iter_mut().find(|slice| slice.label == *label).unwrap();
            (slice.records, slice.bytes) = (*records, records * 100);
        }
        horizon
    }

    fn drawn(records: &[(&str, u64)], width: usize) -> Vec<(String, String)> {
        let (_, rows) = chart(&horizon(records), width).unwrap();
        rows.into_iter()
            .map(|row| (row.figures.trim().split("  ").next().unwrap().to_owned(), row.bar))
            .collect()
    }

    #[test]
    fn an_empty_store_has_no_chart() {
        assert_eq!(chart(&Horizon::default(), 80), None);
    }

    #[test]
    fn gaps_in_time_are_shown_and_empty_ends_are_not() {
        let rows = drawn(&[("1 min", 4), ("1 h", 2), ("never", 1)], 48);
        let row = |label: &str, bar: &str| (label.to_owned(), bar.to_owned());
        assert_eq!(
            rows,
            [
                row("1 min", "████████"),
                row("5 min", ""),
                row("15 min", ""),
                row("1 h", "████"),
                row("never", "██"),
            ]
        );
    }

    #[test]
    fn the_longest_bar_fills_the_width_and_one_among_many_is_still_visible() {
        for width in [20, 48, 80, 200] {
            let (title, rows) = chart(&horizon(&[("1 min", 1_000_000), ("5 min", 1)]), width).unwrap();
            let full = (title.len() + rows[0].bar.chars().count()).min(width);
            assert_eq!(full, if width < title.len() + 9 { width } else { width - 1 });
            assert_eq!(rows[1].bar, "▏");
        }
    }

    #[test]
    fn bars_do_not_overflow() {
        assert_eq!(bar(u64::MAX, u64::MAX, 10), "██████████");
        assert_eq!(bar(0, 0, 10), "");
    }
}
