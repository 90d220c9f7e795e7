package udp

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/rvt"
)

// sink is a Receiver that counts packets and drops them.
type sink struct {
	port  *Port
	got   atomic.Int64 // packets
	bytes atomic.Int64
	drops atomic.Int64
}

func newSink(t testing.TB) *sink {
	p, err := New(Config{Addr: linktest.Addr()})
	require.NoError(t, err)
	s := &sink{port: p}
	require.NoError(t, linktest.Start(p, s))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return s
}

func (s *sink) Deliver(pkts []rvt.Packet, _, _ bool) {
	n, size := 0, 0
	for i := range pkts {
		n += int(pkts[i].N)
		size += int(pkts[i].Len)
	}
	s.bytes.Add(int64(size))
	s.got.Add(int64(n))
}
func (s *sink) FlushAcks()                 {}
func (s *sink) PortEvent(ci.EventType)     {}
func (s *sink) Count(_ rvt.Counter, n int) { s.drops.Add(int64(n)) }

func avTo(p *Port) *ci.AVAttr {
	return &ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: p.core.GID}}
}
