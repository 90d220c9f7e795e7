package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// The timer of a network is set after every delivery, even if it fires while CatchUp delivers, so that datagrams that
// are sent later arrive without a further call.
func TestTimerFiresDuringCatchUp(t *testing.T) {
	t.Parallel()
	v, port, got, rt := pairOfPorts(t, addrs["IPv4"], NetworkConfig{})
	send := func(psn ci.PSN) {
		port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: psn, N: 1,
			MTU: 256, Route: rt}})
	}
	done, fired := false, false
	v.AfterFunc(time.Microsecond, func() { // the latency: due before the network's timer, which is set after it
		_, done = port.CatchUp(0)
	})
	got.Each = func() {
		if !fired {
			fired = true
			require.True(t, v.Step(), "the network's timer is not set")
		}
	}
	send(1)
	require.True(t, v.Step())
	require.True(t, fired, "CatchUp delivered nothing")
	require.True(t, done)
	require.Len(t, got.Taken(), 1)

	for psn := range ci.PSN(3) {
		send(2 + psn)
		v.Advance(time.Second)
		require.Len(t, got.Taken(), 1, "datagram %d", 2+psn)
	}
	require.Zero(t, v.Pending())
}

// Datagrams that arrive while CatchUp delivers are left to the timer.
func TestArrivalDuringCatchUp(t *testing.T) {
	t.Parallel()
	v, port, got, rt := pairOfPorts(t, addrs["IPv4"], NetworkConfig{})
	send := func(psn ci.PSN) {
		port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: psn, N: 1,
			MTU: 256, Route: rt}})
	}
	v.AfterFunc(time.Microsecond, func() { port.CatchUp(0) })
	deliveries := 0
	got.Each = func() {
		if deliveries++; deliveries == 1 {
			require.True(t, v.Step(), "the network's timer is not set")
			send(2)
		}
	}
	send(1)
	require.True(t, v.Step())
	require.Len(t, got.Taken(), 1)
	v.Advance(time.Second)
	require.Len(t, got.Taken(), 1)
	require.Zero(t, v.Pending())
}
