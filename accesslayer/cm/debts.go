package cm

import (
	"math/rand/v2"
	"time"

	"ciddk/accesslayer/mads"
)

// debts estimates, for each source of requests, how many it has sent lately that it did not complete. A source that floods has a large debt,
// and one that answers each REP has none, however many connections it makes. The estimate is a count-min sketch with a secret hash: 32 KB
// whatever the number of sources, never too low, and too high only by what shares all four of a source's cells. Debts halve every second.
// Manager.mu guards it.
type debts struct {
	keys  [3]uint64
	cells [debtRows][debtColumns]debt
}

type debt struct {
	n  uint32
	at uint32 // the second of n
}

const (
	debtRows    = 4
	debtColumns = 1024
	debtHalf    = time.Second
)

func (d *debts) init(r *rand.Rand) {
	for i := range d.keys {
		d.keys[i] = r.Uint64() | 1
	}
}

// each calls f for the cells of a source, brought up to now.
func (d *debts) each(s *mads.Source, now time.Duration, f func(*debt)) {
	h := s.Hash(&d.keys)
	at := uint32(now / debtHalf)
	for i := range d.cells {
		c := &d.cells[i][h>>(16*i)%debtColumns]
		if age := at - c.at; age != 0 {
			c.n, c.at = c.n>>min(age, 31), at
		}
		f(c)
	}
}

// of returns the debt of a source.
func (d *debts) of(s *mads.Source, now time.Duration) uint32 {
	least := ^uint32(0)
	d.each(s, now, func(c *debt) { least = min(least, c.n) })
	return least
}

// request adds a request to the debt of its source, and returns the debt.
func (d *debts) request(s *mads.Source, now time.Duration) uint32 {
	least := ^uint32(0)
	d.each(s, now, func(c *debt) {
		if c.n < 1<<30 {
			c.n++
		}
		least = min(least, c.n)
	})
	return least
}

// complete takes a request that has become a connection out of the debt of its source.
func (d *debts) complete(s *mads.Source, now time.Duration) {
	d.each(s, now, func(c *debt) {
		if c.n > 0 {
			c.n--
		}
	})
}

// outweighs reports whether a source of one debt gives way to a request from a source of another. The margin keeps sources that do alike from
// displacing each other.
func outweighs(held, newcomer uint32) bool { return held > newcomer+newcomer/4+4 }
