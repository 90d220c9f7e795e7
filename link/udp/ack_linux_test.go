package udp

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/rvt"
	"ciddk/wire"
)

// waiter is a Receiver whose engine leaves an acknowledgement waiting after each polled delivery.
type waiter struct {
	sink
	waits   atomic.Bool
	flushed chan struct{}
}

func (w *waiter) Deliver(pkts []rvt.Packet, wait, polled bool) {
	if polled {
		w.waits.Store(true)
	}
	w.sink.Deliver(pkts, wait, polled)
}

func (w *waiter) FlushAcks() {
	if w.waits.Swap(false) {
		select {
		case w.flushed <- struct{}{}:
		default: // known
		}
	}
}

// A consumer that stops polling as soon as it has its completion leaves no acknowledgement waiting, wherever the
// receiving goroutine is at that moment.
func TestUDPAckAfterLastPoll(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, Config{})
	p, err := New(Config{Addr: linktest.Addr()})
	require.NoError(t, err)
	w := &waiter{flushed: make(chan struct{}, 1)}
	w.port = p
	require.NoError(t, linktest.Start(p, w))
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	rt := routeTo(t, a, w.port)
	pkt := []rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 1024, Len: 64,
		Payload: [][]byte{make([]byte, 64)}, Route: rt}}
	late := time.NewTimer(0)
	<-late.C
	for i := range 2000 {
		a.Send(pkt)
		for w.got.Load() <= int64(i) {
			w.port.Drive()
		}
		if !w.waits.Load() {
			continue // the goroutine received, or has flushed
		}
		late.Reset(10 * time.Second)
		for w.waits.Load() {
			select {
			case <-w.flushed:
			case <-late.C:
				require.FailNow(t, "an acknowledgement is left", "round %d", i)
			}
		}
	}
}

// The number of packets in Hints.Packets fits the receive buffer of a port that does not read for a while.
func TestUDPPackets(t *testing.T) {
	t.Parallel()
	a, ra := openTest(t, Config{})
	p, err := New(Config{Addr: linktest.Addr()})
	require.NoError(t, err)
	s := &sink{port: p}
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	rt := routeTo(t, a, s.port)
	most := a.Hints().Packets
	require.GreaterOrEqual(t, most, 256)
	for range most {
		a.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: 1024, Len: 64,
			Payload: [][]byte{make([]byte, 64)}, Route: rt}})
	}
	require.NoError(t, linktest.Start(p, s))
	require.Eventually(t, func() bool { return int(s.got.Load()) == most }, testenv.Patience, time.Millisecond,
		"the buffer of the peer is too small")
	require.Empty(t, ra.Counts)
}
