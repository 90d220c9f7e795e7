package reference

import (
	"sync/atomic"

	"ciddk/internal/rings"
)

// sparse is an array of pointers whose parts are allocated when they are used first. Readers need no lock.
type sparse[T any] struct {
	blocks [sparseBlocks]atomic.Pointer[[sparseBlock]atomic.Pointer[T]]
}

const (
	sparseBlock  = 256
	sparseBlocks = max(maxUserAVs, rings.MaxUserQPs)/sparseBlock + 1
)

// get returns element i, or nil if there is none.
func (s *sparse[T]) get(i uint32) *T {
	if i >= sparseBlocks*sparseBlock {
		return nil
	}
	if b := s.blocks[i/sparseBlock].Load(); b != nil {
		return b[i%sparseBlock].Load()
	}
	return nil
}

// set sets element i, which is in range. Calls are serialised.
func (s *sparse[T]) set(i uint32, v *T) {
	b := &s.blocks[i/sparseBlock]
	if b.Load() == nil {
		b.Store(new([sparseBlock]atomic.Pointer[T]))
	}
	b.Load()[i%sparseBlock].Store(v)
}
