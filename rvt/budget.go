package rvt

import (
	"sync/atomic"
)

// budget counts bytes against a limit.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes and reports whether they are within the limit. If not, it reserves nothing.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }
