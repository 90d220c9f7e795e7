package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/rvt"
	"ciddk/wire"
)

// driveRig is a network whose clock a test moves, and that consumers drive all the same.
type driveRig struct {
	v    *clock.Virtual
	net  *Network
	port *Port
	got  *linktest.Collector
	rt   rvt.Route
}

func newDriveRig(t *testing.T) *driveRig {
	t.Helper()
	r := new(driveRig)
	r.v, r.port, r.got, r.rt = pairOfPorts(t, addrs["IPv4"], NetworkConfig{})
	r.net = r.port.core.Socket.(*socket).net
	r.net.enabled = true
	return r
}

// send sends n packets of a message.
func (r *driveRig) send(n int) {
	for i := range n {
		r.port.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: ci.PSN(i), N: 1,
			MTU: 256, Route: r.rt}})
	}
}

// poll makes the network busy: many drives in the present step and in the one before.
func (r *driveRig) poll() {
	for range 2 {
		r.v.Advance(driveStep)
		for range busyDrives {
			r.port.Drive()
		}
		r.net.mu.Lock()
		r.net.areBusy(r.v.Elapsed())
		r.net.mu.Unlock()
	}
}

// TestDrive checks that a consumer that polls gets what has arrived, and nothing before it has.
func TestDrive(t *testing.T) {
	t.Parallel()
	r := newDriveRig(t)
	r.poll()
	r.send(2)
	require.Zero(t, r.port.Drive(), "before the latency has passed")
	r.v.Advance(time.Microsecond)
	require.Empty(t, r.got.Taken(), "the timer does not stand by")
	require.Equal(t, 2, r.port.Drive())
	require.Len(t, r.got.Taken(), 2)
	require.Zero(t, r.port.Drive())

	r.net.enabled = false
	r.send(1)
	before := r.net.count.Load()
	require.Zero(t, r.port.Drive())
	r.port.Attend()
	require.Equal(t, before, r.net.count.Load())
	r.v.Advance(time.Second)
	require.Len(t, r.got.Taken(), 1)
	require.Zero(t, r.v.Pending())
}

// TestTimerStandsBy checks when the timer delivers a datagram: on arrival, or later while consumers drive.
func TestTimerStandsBy(t *testing.T) {
	t.Parallel()
	none := func(*driveRig) {}
	tests := map[string]struct {
		before func(r *driveRig)
		after  func(r *driveRig) // the datagram has been sent
		late   time.Duration     // the latest time of delivery, after the datagram was sent
		early  time.Duration     // it has not been delivered then
	}{
		"nobody drives": {none, none, time.Microsecond, 0},
		"a few drives": {func(r *driveRig) {
			r.v.Advance(driveStep)
			for range busyDrives - 1 {
				r.port.Drive()
			}
		}, none, time.Microsecond, 0},
		"the consumer stops": {(*driveRig).poll, none, 3 * driveStep, time.Microsecond},
		"the consumer stopped long ago": {func(r *driveRig) {
			r.poll()
			r.v.Advance(2 * driveStep)
		}, none, time.Microsecond, 0},
		"the consumer announces that it stops": {(*driveRig).poll, func(r *driveRig) { r.port.Attend() },
			time.Microsecond, 0},
		"the consumer announced that it stopped": {func(r *driveRig) {
			r.poll()
			r.port.Attend()
		}, none, time.Microsecond, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newDriveRig(t)
			tt.before(r)
			sent := r.v.Elapsed()
			r.send(1)
			tt.after(r)
			if tt.early > 0 {
				r.v.Advance(tt.early)
				require.Empty(t, r.got.Taken())
			}
			r.v.Advance(sent + tt.late - r.v.Elapsed())
			require.Len(t, r.got.Taken(), 1)
			require.Zero(t, r.v.Pending())
		})
	}
}

// TestTimerLeavesDelivery checks that a timer that fires while consumers drive delivers nothing itself, and stays set.
func TestTimerLeavesDelivery(t *testing.T) {
	t.Parallel()
	r := newDriveRig(t)
	r.poll()
	r.send(1)
	r.poll()
	require.Len(t, r.got.Taken(), 1)
	r.send(1)
	at, ok := r.v.Next()
	require.True(t, ok)
	for range 2 * busyDrives {
		r.net.count.Add(1) // consumers that drive, and find another goroutine delivering
	}
	require.True(t, r.v.Step())
	require.Equal(t, at, r.v.Elapsed())
	require.Empty(t, r.got.Taken())
	require.Equal(t, 1, r.v.Pending())
	require.Equal(t, 1, r.port.Drive())
	require.Len(t, r.got.Taken(), 1)
}
