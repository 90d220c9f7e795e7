package udp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

func (s *mmsgSocket) merging() bool { return s.gso.Load() && s.gro }

// While a consumer polls, it receives itself and the goroutine pauses. The goroutine continues when the consumer stops.
func TestUDPDrive(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, Config{})
	b, rb := openTest(t, Config{})
	p := []rvt.Packet{{Service: wire.RC, Op: wire.OpAcknowledge, N: 1, Route: routeTo(t, a, b)}}
	for range 200 {
		a.Send(p)
		for packets := 0; packets == 0; {
			b.Drive()
			rb.Lock()
			packets = len(rb.Pkts)
			rb.Unlock()
		}
		rb.Taken()
	}
	rb.Lock()
	polled := rb.Polled
	rb.Unlock()
	require.Positive(t, polled)
	b.Drive()
	require.Positive(t, rb.Flushes.Load(), "an idle Drive flushes acknowledgements")
	a.Send(p)
	rb.Packets(t, 1)
}

// Where the system rejects segmentation, packets are sent singly, with the right ICRCs.
func TestUDPWithoutSegmentation(t *testing.T) {
	t.Parallel()
	a, ra := openTest(t, Config{})
	b, rb := openTest(t, Config{})
	a.core.Socket.(*mmsgSocket).gso.Store(false)
	checkRoundTrip(t, a, ra, b, rb)
}

// Sending and receiving do not allocate in the steady state.
func TestUDPNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("with the race detector, sync.Pool drops a quarter of what it is given")
	}
	a, _ := openTest(t, Config{})
	b := newSink(t)
	rt, err := a.Route(avTo(b.port), rvt.Flow{})
	require.NoError(t, err)
	var pkts []rvt.Packet
	for i := range 16 {
		n := 1 + i%2*3
		service := []wire.Service{wire.UD, wire.RC}[i%2] // with a GRH, and in trains
		pkts = append(pkts, rvt.Packet{Service: service, Op: wire.OpSend, Start: true, End: true, N: uint32(n),
			MTU: 1024, Len: uint32(n * 1024),
			Payload: [][]byte{make([]byte, n*1024)}, Route: rt})
	}
	want := train.Count(pkts)
	step := func() {
		a.Send(pkts)
		for got := 0; got < want; got = int(b.got.Swap(0)) + got {
			b.port.Drive()
		}
	}
	step()
	// Garbage collections of other tests empty the pool of send batches, so the average is not exactly zero.
	require.Less(t, testing.AllocsPerRun(200, step), 1.0)
}

// The window of Hints.Window fits into the receive buffer of a port that does not read, in long trains and in single
// packets.
func TestUDPWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		n, mtu int
	}{{"trains of 4096", 15, 4096}, {"trains of 1024", 60, 1024}, {"singles of 4096", 1, 4096},
		{"singles of 1024", 1, 1024}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, ra := openTest(t, Config{})
			p, err := New(Config{Addr: linktest.Addr()})
			require.NoError(t, err)
			b := p
			s := &sink{port: b}
			t.Cleanup(func() { require.NoError(t, b.Close()) })
			rt := routeTo(t, a, b)
			window, body := a.Hints().Window, make([]byte, c.n*c.mtu)
			sent := 0
			for sent+len(body) <= window {
				a.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, N: uint32(c.n), MTU: uint32(c.mtu),
					Len: uint32(len(body)), Payload: [][]byte{body}, Route: rt}})
				sent += len(body)
			}
			require.NoError(t, linktest.Start(b, s))
			require.Eventually(t, func() bool { return int(s.bytes.Load()) == sent },
				testenv.Patience, time.Millisecond,
				"the buffer of the peer is too small for the window")
			require.Empty(t, ra.Counts)
		})
	}
}
