package cm

import (
	"math/rand/v2"
	"time"

	"ciddk/accesslayer/mads"
)

// An unfinishedSketch estimates, for each source of requests, how many of its recent requests did not become
// connections. The estimate is large for a source that floods and 0 for a source that answers each REP, however many
// connections it makes. The estimate halves every second.
//
// The sketch is a count-min sketch with a secret hash. It takes 32 KB for any number of sources. An estimate is never
// too low. It is too high only by the requests of sources that share all four cells. Manager.mu guards it.
type unfinishedSketch struct {
	keys  [3]uint64
	cells [sketchRows][sketchColumns]unfinishedCell
}

type unfinishedCell struct {
	count  uint32
	second uint32 // time of the last halving, in units of halfLife
}

const (
	sketchRows    = 4
	sketchColumns = 1024
	halfLife      = time.Second
)

func (u *unfinishedSketch) init(r *rand.Rand) {
	for i := range u.keys {
		u.keys[i] = r.Uint64() | 1
	}
}

// each calls f for the cells of a source after halving their counts for the time that has passed.
func (u *unfinishedSketch) each(s *mads.Source, now time.Duration, f func(*unfinishedCell)) {
	h := s.Hash(&u.keys)
	second := uint32(now / halfLife)
	for i := range u.cells {
		c := &u.cells[i][h>>(16*i)%sketchColumns]
		if age := second - c.second; age != 0 {
			c.count, c.second = c.count>>min(age, 31), second
		}
		f(c)
	}
}

// count returns the estimate for a source.
func (u *unfinishedSketch) count(s *mads.Source, now time.Duration) uint32 {
	least := ^uint32(0)
	u.each(s, now, func(c *unfinishedCell) { least = min(least, c.count) })
	return least
}

// add counts a request and returns the estimate for its source.
func (u *unfinishedSketch) add(s *mads.Source, now time.Duration) uint32 {
	least := ^uint32(0)
	u.each(s, now, func(c *unfinishedCell) {
		if c.count < 1<<30 {
			c.count++
		}
		least = min(least, c.count)
	})
	return least
}

// complete removes a request that has become a connection.
func (u *unfinishedSketch) complete(s *mads.Source, now time.Duration) {
	u.each(s, now, func(c *unfinishedCell) {
		if c.count > 0 {
			c.count--
		}
	})
}

// isLarger reports whether a request whose source has held unfinished requests is displaced by a request whose source
// has newcomer ones. The margin prevents sources with similar counts from displacing each other's requests.
func isLarger(held, newcomer uint32) bool { return held > newcomer+newcomer/4+4 }
