package main

import (
	"fmt"
	"math"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

// seen is what the clients saw.
type seen struct {
	done, applied uint64
	took          time.Duration
	waits         []time.Duration // sorted
}

func (s seen) quantile(q float64) time.Duration {
	if len(s.waits) == 0 {
		return 0
	}
	return s.waits[int(q*float64(len(s.waits)-1))]
}

// drive runs an operation on first..first+count by so many clients, until all are done or the limit is over.
// bbolt's calls block, so an operation in flight is a goroutine of its own.
func drive(clients int, first, count uint64, limit time.Duration, operation func(uint64) (bool, error)) (seen, error) {
	var next, applied atomic.Uint64
	next.Store(first)
	start := time.Now()
	waits := make([][]time.Duration, clients)
	errors := make([]error, clients)
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for now := time.Now(); now.Sub(start) < limit; {
				i := next.Add(1) - 1
				if i >= first+count {
					return
				}
				ok, err := operation(i)
				if err != nil {
					errors[c] = err
					return
				}
				if ok {
					applied.Add(1)
				}
				end := time.Now()
				waits[c] = append(waits[c], end.Sub(now))
				now = end
			}
		})
	}
	group.Wait()
	s := seen{applied: applied.Load(), took: time.Since(start)}
	for c := range clients {
		if errors[c] != nil {
			return s, errors[c]
		}
		s.waits = append(s.waits, waits[c]...)
	}
	sort.Slice(s.waits, func(a, b int) bool { return s.waits[a] < s.waits[b] })
	s.done = uint64(len(s.waits))
	return s, nil
}

func (j job) limit() time.Duration { return time.Duration(j.seconds * float64(time.Second)) }
func (j job) clients() int         { return j.writers * j.inFlight }

// fill puts records in by large transactions, which the source system has for puts without expiry only.
func fill(s *store, records uint64, ttl int64) error {
	const batch = 10_000
	for first := uint64(0); first < records; first += batch {
		err := s.db.Update(func(tx *bolt.Tx) error {
			for i := first; i < min(first+batch, records); i++ {
				r := makeRecord(i, 0)
				if ttl > 0 {
					r.ttl = ttl
				}
				if err := s.put(tx, r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func fillOnly(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	if err := fill(s, j.records, 0); err != nil {
		return nil, err
	}
	return metrics{}, s.db.Close()
}

func inserting(s *store) func(uint64) (bool, error) {
	return func(i uint64) (bool, error) { return s.insertIfNotExists(makeRecord(i, 0)) }
}

func insert(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	memoryBefore, err := memory()
	if err != nil {
		return nil, err
	}
	writtenBefore, err := written()
	if err != nil {
		return nil, err
	}
	cpuBefore := cpu()
	w, err := drive(j.clients(), 0, j.records, j.limit(), inserting(s))
	if err != nil {
		return nil, err
	}
	spent := cpu() - cpuBefore
	writtenAfter, err := written()
	if err != nil {
		return nil, err
	}
	memoryAfter, err := memory()
	if err != nil {
		return nil, err
	}
	done := float64(w.done)
	return metrics{
		"records": done, "per_s": done / w.took.Seconds(), "cpu_us": spent.Seconds() * 1e6 / done,
		"written":     (writtenAfter - writtenBefore) / done / payloadBytes,
		"memory":      (memoryAfter-memoryBefore)/done - 16,
		"wait_p50_us": micros(w.quantile(0.5)), "wait_p99_us": micros(w.quantile(0.99)), "wait_max_us": micros(w.quantile(1)),
	}, s.db.Close()
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }
func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

func read(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	var asked, found uint64
	start, before := time.Now(), cpu()
	for ; asked%1000 != 0 || time.Since(start) < j.limit(); asked++ {
		value, err := s.get(&record{key: makeKey(scatter(asked) % j.records)})
		if err != nil {
			return nil, err
		}
		if value != nil {
			found++
		}
	}
	spent := cpu() - before
	if float64(found) < 0.9*float64(asked) {
		return nil, fmt.Errorf("only %d of %d records were found", found, asked)
	}
	return metrics{"read_us": micros(spent) / float64(asked), "hits": float64(found) / float64(asked)}, s.db.Close()
}

func rangeRead(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	var asked, found uint64
	start, before := time.Now(), cpu()
	for ; asked%1000 != 0 || time.Since(start) < j.limit(); asked++ {
		from := makeKey(scatter(asked))
		from[8] &= 0x7f
		records, err := s.read(from, 10)
		if err != nil {
			return nil, err
		}
		found += uint64(records)
	}
	spent := cpu() - before
	return metrics{"range_us": micros(spent) / float64(asked), "per_range": float64(found) / float64(asked)}, s.db.Close()
}

func swap(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	const stride = 7_368_787
	before := cpu()
	w, err := drive(j.clients(), 0, j.records, j.limit(), func(n uint64) (bool, error) {
		i := n * stride % j.records
		return s.compareAndSwap(makeRecord(i, 1), makeRecord(i, 0).value)
	})
	if err != nil {
		return nil, err
	}
	done := float64(w.done)
	return metrics{
		"swaps": done, "swap_per_s": done / w.took.Seconds(), "swap_cpu_us": micros(cpu()-before) / done,
	}, s.db.Close()
}

func reopen(j job) (metrics, error) {
	const safe = 30 * minute
	start := time.Now()
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	if _, err := s.get(makeRecord(0, 0)); err != nil {
		return nil, err
	}
	took := time.Since(start)
	checked := 0
	for i := range j.records {
		r := makeRecord(i, 0)
		if r.ttl < safe {
			continue
		}
		value, err := s.get(r)
		if err != nil {
			return nil, err
		}
		if value == nil {
			return nil, fmt.Errorf("record %d is lost", i)
		}
		checked++
	}
	return metrics{"open_ms": millis(took), "checked": float64(checked)}, s.db.Close()
}

func crash(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	if err := fill(s, j.records, 0); err != nil {
		return nil, err
	}
	fmt.Println("ready")
	if _, err := drive(j.clients(), j.records, math.MaxUint64/2, time.Minute, inserting(s)); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("nobody killed this process within a minute")
}

func reclaim(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	if err := fill(s, j.records, hour); err != nil {
		return nil, err
	}
	diskBefore, err := disk(j.dir)
	if err != nil {
		return nil, err
	}
	cpuBefore, start := cpu(), time.Now()
	if err := s.pass(time.Hour + time.Millisecond); err != nil {
		return nil, err
	}
	spent, took := cpu()-cpuBefore, time.Since(start)
	diskLeft, err := disk(j.dir)
	if err != nil {
		return nil, err
	}
	return metrics{
		"reclaim_cpu_us": micros(spent) / float64(j.records), "reclaim_s": took.Seconds(),
		"disk_before_mb": diskBefore, "disk_left_mb": diskLeft, "expired": float64(j.records),
	}, s.db.Close()
}

func wait(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	if err := fill(s, j.records, hour); err != nil {
		return nil, err
	}
	longer := func(i uint64) (bool, error) {
		r := makeRecord(i, 0)
		r.ttl = 10 * hour
		return s.insertIfNotExists(r)
	}
	before, err := drive(16, j.records, math.MaxUint64/2, j.limit()/4, longer)
	if err != nil {
		return nil, err
	}
	var during seen
	var writeErr error
	var group sync.WaitGroup
	group.Go(func() {
		during, writeErr = drive(16, j.records+before.done, math.MaxUint64/2, j.limit(), longer)
	})
	time.Sleep(j.limit() / 10)
	if err := s.pass(time.Hour + time.Millisecond); err != nil {
		return nil, err
	}
	group.Wait()
	if writeErr != nil {
		return nil, writeErr
	}
	return metrics{
		"wait_before_ms": millis(before.quantile(1)), "wait_during_ms": millis(during.quantile(1)),
		"wait_p99_before_ms": millis(before.quantile(0.99)), "wait_p99_during_ms": millis(during.quantile(0.99)),
	}, s.db.Close()
}

func amplify(j job) (metrics, error) {
	s, err := open(j.dir)
	if err != nil {
		return nil, err
	}
	before, err := written()
	if err != nil {
		return nil, err
	}
	w, err := drive(j.clients(), 0, j.records, j.limit(), inserting(s))
	if err != nil {
		return nil, err
	}
	arrived, err := written()
	if err != nil {
		return nil, err
	}
	for range 26 {
		if err := s.pass(time.Hour); err != nil {
			return nil, err
		}
	}
	after, err := written()
	if err != nil {
		return nil, err
	}
	left, err := disk(j.dir)
	if err != nil {
		return nil, err
	}
	payload := float64(w.done) * payloadBytes
	return metrics{
		"records": float64(w.done), "amplification": (after - before) / payload,
		"amplification_arrivals": (arrived - before) / payload, "disk_left_mb": left,
	}, s.db.Close()
}
