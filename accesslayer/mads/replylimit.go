package mads

import (
	crand "crypto/rand"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"

	"ciddk/ci"
)

// ReplyLimit bounds the datagrams that a service sends in reply to datagrams whose sender is not verified: rejections,
// aborts, and replies to duplicates. Without a limit, datagrams with a forged source make the service send the same
// number to the port whose address they carry. Destinations share 1024 cells by a secret hash, so the memory, 8 KB,
// does not depend on their number. Call Init before Allow. Allow may be called concurrently.
type ReplyLimit struct {
	mu    sync.Mutex
	keys  [3]uint64
	peer  rate
	total rate
	all   time.Duration
	cells [1024]time.Duration // for each cell, when all that was allowed will have been sent at the sustained rate
}

// rate is a sustained rate with bursts.
type rate struct {
	every time.Duration // time of one datagram
	burst time.Duration // how far a sender may be ahead of the sustained rate
}

func newRate(perSecond int) rate {
	every := time.Second / time.Duration(perSecond)
	return rate{every, replyBurst * time.Second}
}

// replyBurst is the number of seconds' worth of replies that may be sent at once.
const replyBurst = 2

// Init sets the rates in datagrams per second: to one destination, and to all together. After a pause, twice as many
// may be sent at once.
func (l *ReplyLimit) Init(r *rand.Rand, perPeer, total int) {
	for i := range l.keys {
		l.keys[i] = r.Uint64() | 1
	}
	l.peer, l.total = newRate(max(perPeer, 1)), newRate(max(total, 1))
}

// Allow reports whether a reply to an address may be sent now, and counts it if so.
func (l *ReplyLimit) Allow(to *ci.AVAttr, now time.Duration) bool {
	s := SourceOf(to)
	l.mu.Lock()
	defer l.mu.Unlock()
	cell := &l.cells[s.Hash(&l.keys)%uint64(len(l.cells))]
	peer, all := max(*cell, now), max(l.all, now)
	if peer-now > l.peer.burst-l.peer.every || all-now > l.total.burst-l.total.every {
		return false
	}
	*cell, l.all = peer+l.peer.every, all+l.total.every
	return true
}

// Source identifies the origin of datagrams for shares and rates. It is the GID, or the LID if there is no GID. On
// Ethernet, all addresses of a global IPv6 /64 are one Source, since one host can use any number of them.
type Source struct {
	gid ci.GID
	lid ci.LID
}

// SourceOf returns the Source of an address that datagrams come from or go to.
func SourceOf(av *ci.AVAttr) Source {
	if !av.Global {
		return Source{lid: av.DLID}
	}
	g := av.GRH.DGID
	linkLocal := g[0] == 0xfe && g[1]&0xc0 == 0x80
	if av.DLID == 0 && !linkLocal && v4Mapped != [12]byte(g[:12]) {
		clear(g[8:])
	}
	return Source{gid: g}
}

// Hash returns a hash of s. keys are odd random numbers. A peer that does not have them cannot predict the hash.
func (s *Source) Hash(keys *[3]uint64) uint64 {
	var a, b uint64
	for i := range 8 {
		a, b = a<<8|uint64(s.gid[i]), b<<8|uint64(s.gid[8+i])
	}
	h := fold(a^keys[0], keys[1])
	h = fold(h^b, keys[2])
	return fold(h^uint64(s.lid), keys[0])
}

// newRand returns the source of randomness for the secret of a ReplyLimit.
func newRand() *rand.Rand {
	var seed [32]byte
	crand.Read(seed[:]) // never fails
	return rand.New(rand.NewChaCha8(seed))
}

// fold multiplies two numbers and folds the product into 64 bits.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
