package main

import "encoding/binary"

const (
	valueBytes   = 100
	payloadBytes = 16 + valueBytes
	partitions   = 1000
	minute       = 60_000
	hour         = 60 * minute
	day          = 24 * hour
)

// record is one of the workload's records; the shape is that of ../src/record.rs.
type record struct {
	key   [16]byte
	value []byte
	ttl   int64 // milliseconds
}

func makeRecord(i, generation uint64) *record {
	r := &record{key: makeKey(i), value: make([]byte, 0, valueBytes+8)}
	for word := scatter(i + generation<<48); len(r.value) < valueBytes; word = scatter(word) {
		r.value = binary.BigEndian.AppendUint64(r.value, word)
	}
	r.value = r.value[:valueBytes]
	r.ttl = minute + int64(scatter(i^7<<56)%(day-minute))
	return r
}

func makeKey(i uint64) (key [16]byte) {
	binary.BigEndian.PutUint64(key[:8], scatter(i%partitions))
	binary.BigEndian.PutUint64(key[8:], scatter(i+1<<40))
	return key
}

func scatter(i uint64) uint64 {
	i += 0x9e3779b97f4a7c15
	i = (i ^ i>>30) * 0xbf58476d1ce4e5b9
	i = (i ^ i>>27) * 0x94d049bb133111eb
	return i ^ i>>31
}
