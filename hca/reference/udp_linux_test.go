package reference

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/rvt"
	"ciddk/wire"
)

func (s *mmsgSocket) merging() bool { return s.gso.Load() && s.gro }

// A consumer that spins receives by itself, the goroutine steps aside, and takes over again when the consumer stops.
func TestUDPDrive(t *testing.T) {
	t.Parallel()
	a, _ := openTest(t, UDPConfig{})
	b, rb := openTest(t, UDPConfig{})
	p := []rvt.Packet{{Service: wire.RC, Op: wire.OpAcknowledge, N: 1, Route: routeTo(t, a, b)}}
	for n := 0; n < 200; n++ {
		a.Send(p)
		for packets := 0; packets == 0; {
			b.Drive()
			rb.mu.Lock()
			packets = len(rb.pkts)
			rb.mu.Unlock()
		}
		rb.taken()
	}
	rb.mu.Lock()
	polled := rb.polled
	rb.mu.Unlock()
	require.Positive(t, polled)
	b.Drive()
	require.Positive(t, rb.flushes.Load(), "an idle Drive flushes acknowledgements")
	a.Send(p)
	rb.packets(t, 1)
}

// Where the system refuses segmentation, the packets go out one by one, with the ICRCs that this takes.
func TestUDPWithoutSegmentation(t *testing.T) {
	t.Parallel()
	a, ra := openTest(t, UDPConfig{})
	b, rb := openTest(t, UDPConfig{})
	a.sock.(*mmsgSocket).gso.Store(false)
	checkRoundTrip(t, a, ra, b, rb)
}

// Steady state makes no garbage, sending or receiving.
func TestUDPNoAllocation(t *testing.T) {
	a, _ := openTest(t, UDPConfig{})
	b := newSink(t)
	rt, err := a.Route(avTo(b.port), rvt.Flow{})
	require.NoError(t, err)
	var pkts []rvt.Packet
	for i := range 16 {
		n := 1 + i%2*3
		pkts = append(pkts, rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, N: uint32(n), MTU: 1024, Len: uint32(n * 1024),
			Payload: [][]byte{make([]byte, n*1024)}, Route: rt})
	}
	want := packetCount(pkts)
	step := func() {
		a.Send(pkts)
		for got := 0; got < want; got = int(b.got.Swap(0)) + got {
			b.port.Drive()
		}
	}
	step()
	// The pool of send batches is emptied by garbage collections of other tests, hence not exactly zero.
	require.Less(t, testing.AllocsPerRun(200, step), 1.0)
}
