package main

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

var (
	dataBucket = []byte("dataBucket")
	ttlBucket  = []byte("ttlBucket")
)

// store has the transactions of Voedger's pkg/istorage/bbolt: a data bucket with a bucket per partition, a TTL
// bucket keyed [8 expireAt][8 length of pKey][pKey][cCols], a View that reads and then an Update that writes,
// one Update per operation, one Update for a whole clean. Time is injected.
type store struct {
	db  *bolt.DB
	now atomic.Int64 // Unix milliseconds
}

func open(dir string) (*store, error) {
	db, err := bolt.Open(filepath.Join(dir, "bbolt.db"), 0o644, bolt.DefaultOptions)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		if _, err := tx.CreateBucketIfNotExists(dataBucket); err != nil {
			return err
		}
		_, err := tx.CreateBucketIfNotExists(ttlBucket)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &store{db: db}
	s.now.Store(time.Now().UnixMilli())
	return s, nil
}

// get returns a copy of the live value, nil if there is none.
func (s *store) get(r *record) (value []byte, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(dataBucket).Bucket(r.key[:8])
		if bucket == nil {
			return nil
		}
		if stored := bucket.Get(r.key[8:]); stored != nil && s.live(stored) {
			value = append([]byte{}, stored[8:]...)
		}
		return nil
	})
	return value, err
}

func (s *store) insertIfNotExists(r *record) (bool, error) {
	old, err := s.get(r)
	if err != nil || old != nil {
		return false, err
	}
	return true, s.db.Update(func(tx *bolt.Tx) error { return s.put(tx, r) })
}

func (s *store) compareAndSwap(r *record, expected []byte) (bool, error) {
	old, err := s.get(r)
	if err != nil || !bytes.Equal(old, expected) {
		return false, err
	}
	return true, s.db.Update(func(tx *bolt.Tx) error { return s.put(tx, r) })
}

func (s *store) put(tx *bolt.Tx, r *record) error {
	bucket, err := tx.Bucket(dataBucket).CreateBucketIfNotExists(r.key[:8])
	if err != nil {
		return err
	}
	expireAt := uint64(s.now.Load() + r.ttl)
	stored := append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(r.value)), expireAt), r.value...)
	if err := bucket.Put(r.key[8:], stored); err != nil {
		return err
	}
	index := binary.BigEndian.AppendUint64(make([]byte, 0, 32), expireAt)
	index = binary.BigEndian.AppendUint64(index, 8)
	return tx.Bucket(ttlBucket).Put(append(index, r.key[:]...), nil)
}

// read visits up to limit live records of a partition from a key on.
func (s *store) read(start [16]byte, limit int) (found int, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(dataBucket).Bucket(start[:8])
		if bucket == nil {
			return nil
		}
		cursor := bucket.Cursor()
		for k, stored := cursor.Seek(start[8:]); k != nil && found < limit; k, stored = cursor.Next() {
			if s.live(stored) {
				_ = append([]byte{}, k...)
				_ = append([]byte{}, stored[8:]...)
				found++
			}
		}
		return nil
	})
	return found, err
}

// clean is one round of the background cleaner. Deleting under a cursor makes it skip, so one round may leave
// some; the source system's next round comes an hour later.
func (s *store) clean() (cleaned int, err error) {
	err = s.db.Update(func(tx *bolt.Tx) error {
		cursor := tx.Bucket(ttlBucket).Cursor()
		for k, _ := cursor.First(); k != nil; k, _ = cursor.Next() {
			if int64(binary.BigEndian.Uint64(k)) > s.now.Load() {
				break
			}
			if err := removeKey(tx, k); err != nil {
				return err
			}
			cleaned++
		}
		return nil
	})
	return cleaned, err
}

func removeKey(tx *bolt.Tx, index []byte) error {
	partition, sort := index[16:24], index[24:]
	data := tx.Bucket(dataBucket)
	if bucket := data.Bucket(partition); bucket != nil {
		if err := bucket.Delete(sort); err != nil {
			return err
		}
		if k, _ := bucket.Cursor().First(); k == nil {
			if err := data.DeleteBucket(partition); err != nil {
				return err
			}
		}
	}
	return tx.Bucket(ttlBucket).Delete(index)
}

// pass lets time pass and cleans until nothing expired is left.
func (s *store) pass(d time.Duration) error {
	s.now.Add(d.Milliseconds())
	for {
		if cleaned, err := s.clean(); err != nil || cleaned == 0 {
			return err
		}
	}
}

func (s *store) live(stored []byte) bool {
	return int64(binary.BigEndian.Uint64(stored)) > s.now.Load()
}
