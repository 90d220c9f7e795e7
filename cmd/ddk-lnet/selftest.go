package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"ciddk/lnd"
)

// A store holds the blocks of peers by their match bits.
type store struct {
	mu   sync.Mutex
	room int64 // bytes that may still be stored
	data map[uint64][]byte
}

// put returns new memory for each write, so that no peer reads a block that is partly written. It takes the room at
// once, and returns that of the block before.
func (s *store) put(r lnd.Request) ([]byte, func(int, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int64(r.Len) > s.room {
		return nil, func(int, error) {}
	}
	s.room -= int64(r.Len)
	b := make([]byte, r.Len)
	return b, func(n int, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.room += int64(len(b))
			return
		}
		s.room += int64(cap(s.data[r.Match]))
		s.data[r.Match] = b[:n]
	}
}

func (s *store) get(r lnd.Request) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data[r.Match]
}

// A selftest moves blocks to a peer and back, and compares them.
type selftest struct {
	*lnd.Node
	peer   lnd.NID
	portal uint32
}

// run moves each size in each round, with several transfers in progress. It returns the number of bytes that were
// moved in both directions, and the first error.
func (s selftest) run(ctx context.Context, rounds, concurrency int) (moved int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for worker := range concurrency {
		wg.Go(func() {
			for size := range jobs {
				n, err := s.block(ctx, uint64(worker), size)
				if err != nil {
					cancel(fmt.Errorf("block of %d bytes: %w", size, err))
				}
				mu.Lock()
				moved += n
				mu.Unlock()
			}
		})
	}
	for i := 0; i < rounds*len(sizes) && ctx.Err() == nil; i++ {
		select {
		case jobs <- sizes[i%len(sizes)]:
		case <-ctx.Done():
		}
	}
	close(jobs)
	wg.Wait()
	return moved, context.Cause(ctx)
}

// block moves one block.
func (s selftest) block(ctx context.Context, match uint64, size int) (moved int64, err error) {
	t := lnd.Target{Portal: s.portal, Match: match}
	data, back := make([]byte, size), make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(match), byte(size), byte(size >> 8), byte(rand.Uint32())}).Read(data)
	n, err := s.Put(ctx, s.peer, t, data)
	if err == nil && n != size {
		err = fmt.Errorf("the peer has stored %d bytes", n)
	}
	if err != nil {
		return 0, err
	}
	n, err = s.Get(ctx, s.peer, t, back)
	if err == nil && !bytes.Equal(data, back[:n]) {
		err = fmt.Errorf("the peer has returned other data, or %d bytes", n)
	}
	return int64(2 * size), err
}
