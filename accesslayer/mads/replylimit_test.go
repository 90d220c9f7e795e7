package mads

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

func avOf(addr string) *ci.AVAttr {
	return &ci.AVAttr{Global: true, GRH: ci.GRH{DGID: netip.MustParseAddr(addr).As16()}}
}

// TestReplyLimit requests 20,000 replies per second, to one destination and to many, and counts those that are allowed
// in ten seconds. They must not exceed the rate and one burst. Another destination is not affected by the first.
func TestReplyLimit(t *testing.T) {
	const perPeer, total, seconds = 100, 1000, 10
	for name, tt := range map[string]struct {
		peers int
		most  int
	}{"one": {1, perPeer * (seconds + replyBurst)}, "many": {200, total * (seconds + replyBurst)}} {
		t.Run(name, func(t *testing.T) {
			var l ReplyLimit
			l.Init(rand.New(rand.NewPCG(1, 2)), perPeer, total)
			to := make([]*ci.AVAttr, tt.peers)
			for i := range to {
				a := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
				to[i] = &ci.AVAttr{Global: true, GRH: ci.GRH{DGID: a.As16()}}
			}
			allowed := 0
			for i := range 20000 * seconds {
				if l.Allow(to[i%len(to)], time.Duration(i)*time.Second/20000) {
					allowed++
				}
			}
			assert.LessOrEqual(t, allowed, tt.most)
			assert.GreaterOrEqual(t, allowed, tt.most*9/10)
			if tt.peers == 1 {
				assert.True(t, l.Allow(avOf("10.1.0.1"), seconds*time.Second), "of the total, one destination leaves "+
					"room")
			}
			assert.True(t, l.Allow(to[0], (seconds+1)*time.Second), "a second later")
		})
	}
}

// TestSourceOf checks which addresses are one Source.
func TestSourceOf(t *testing.T) {
	same := func(a, b *ci.AVAttr) bool { return SourceOf(a) == SourceOf(b) }
	assert.True(t, same(avOf("2001:db8::1"), avOf("2001:db8::ffff:2")), "one /64")
	assert.False(t, same(avOf("2001:db8::1"), avOf("2001:db8:0:1::1")), "two of them")
	assert.False(t, same(avOf("fe80::1"), avOf("fe80::2")), "link-local: all hosts have the same prefix")
	assert.False(t, same(avOf("::ffff:10.0.0.1"), avOf("::ffff:10.0.0.2")), "IPv4")
	ib1, ib2 := avOf("2001:db8::1"), avOf("2001:db8::2")
	ib1.DLID, ib2.DLID = 1, 2
	assert.False(t, same(ib1, ib2), "InfiniBand: the prefix is the subnet's")
	assert.False(t, same(&ci.AVAttr{DLID: 1}, &ci.AVAttr{DLID: 2}))
}
