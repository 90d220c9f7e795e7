package model

import "sync/atomic"

// semaphore is a register that the first reader takes.
type semaphore struct{ taken atomic.Bool }

// take returns 0 if the reader has taken it, and 1 if it was taken before.
func (s *semaphore) take() uint32 {
	if s.taken.Swap(true) {
		return 1
	}
	return 0
}

func (s *semaphore) release() { s.taken.Store(false) }
