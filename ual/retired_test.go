package ual

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

// TestRetired checks how long the context of a destroyed QP is kept if the daemon cannot report that its CQs are empty:
// until a poll finds fewer entries than it may return, or until more entries were polled than the queue had.
func TestRetired(t *testing.T) {
	c := new(Client)
	kept := func(r *receiver) bool { return c.tokens.find(r.token) != nil }
	retire := func(send, recv ci.CQ) *receiver {
		r := new(receiver)
		c.tokens.add(r)
		c.retire(r, false, send, recv)
		return r
	}
	own := &CQ{user: ci.UserCQ{Poll: func([]ci.WC) (int, error) { return 0, nil }}}
	assert.False(t, kept(retire(nil, nil)), "nothing was posted")
	assert.False(t, kept(retire(own, nil)), "the library polls")

	q, other := &CQ{size: 4}, &CQ{size: 1}
	r := retire(q, other)
	q.count(4, 0)
	q.keep(q.takeRetired())
	assert.True(t, kept(r), "the other queue may have entries")
	other.forget(other.takeRetired())
	assert.False(t, kept(r))

	q.count(0, 2) // a message that polls is in progress
	r = retire(q, q)
	q.count(2, 0)
	for range 4 {
		q.keep(q.takeRetired())
		assert.True(t, kept(r))
		q.count(1, 0)
	}
	later := retire(q, nil)
	q.keep(q.takeRetired())
	assert.False(t, kept(r))
	assert.True(t, kept(later))
	q.forget(q.takeRetired())
	assert.False(t, kept(later))
}
