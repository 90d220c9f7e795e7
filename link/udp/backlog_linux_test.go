package udp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/internal/train"
)

// waiting returns the number of bytes in a socket's receive buffer.
func waiting(t *testing.T, fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	require.NoError(t, err)
	return n
}

// TestAckInSocket checks that the transport timer does not count a timeout while the acknowledgement is in the socket,
// because the goroutine that holds the receive lock does not run. The QP's clock is virtual and advances only here.
func TestAckInSocket(t *testing.T) {
	c := clock.NewVirtual(time.Hour)
	port := testenv.Must(New(Config{Addr: linktest.Addr()}))
	config := linktest.Config(port)
	config.Clock = c
	a := linktest.OpenConfig(t, ci.RC, 4096, config)
	b := linktest.Open(t, ci.RC, 4096, testenv.Must(New(Config{Addr: linktest.Addr()})))
	a.Connect(b)
	b.Connect(a)
	b.Recv(ci.RecvWR{SGL: b.SGE(0, 100)})
	sock := port.core.Socket.(*mmsgSocket)

	sock.recvMu.Lock() // as its holder would that the system has put aside
	a.Send(ci.SendWR{ID: 1, Flags: ci.SendSignaled, SGL: a.SGE(0, 100)})
	require.Eventually(t, func() bool { return waiting(t, sock.in) > 0 }, testenv.Patience, time.Millisecond)
	attr, err := a.QP.Query()
	require.NoError(t, err)
	timeout := 4096 * time.Nanosecond << attr.Primary.AckTimeout
	c.Advance(2 * timeout)
	require.Zero(t, a.HCA.Counters()["retries"])
	require.NotZero(t, a.HCA.Counters()["retries_postponed"])
	sock.recvMu.Unlock()

	require.Eventually(t, func() bool { return waiting(t, sock.in) == 0 }, testenv.Patience, time.Millisecond)
	func() {
		sock.recvMu.Lock() // what was received has been delivered
		defer sock.recvMu.Unlock()
	}()
	c.Advance(10 * timeout)
	require.Zero(t, a.HCA.Counters()["retries"])
	var wc [1]ci.WC
	n, err := a.CQ.Poll(wc[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, ci.WCSuccess, wc[0].Status)
}

// TestCatchUp checks that the timer's own goroutine receives what the port's goroutine has not received, and that a
// flood does not keep it forever.
func TestCatchUp(t *testing.T) {
	b, err := New(Config{Addr: linktest.Addr()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	sock := b.core.Socket.(*mmsgSocket)
	r := linktest.NewCollector()
	b.core.Receiver, b.core.Clock = r, clock.Real()
	sock.rx = newRecvBatch(b.core, false) // as after Start, without the goroutine
	a, _ := openTest(t, Config{})
	trains := linktest.Trains(routeTo(t, a, b))
	a.Send(trains)
	want := train.Count(trains)
	require.NotZero(t, waiting(t, sock.in))
	_, done := b.CatchUp(0)
	require.True(t, done)
	require.Equal(t, want, train.Count(r.Taken()))

	sock.recvMu.Lock()
	_, done = b.CatchUp(0)
	require.False(t, done, "somebody else receives")
	sock.recvMu.Unlock()

	sock.backlog = 10 // of a small buffer
	calls := 0
	r.Each = func() { // for each packet that is delivered, another one comes
		calls++
		a.Send(trains[:1])
	}
	a.Send(trains[:1])
	_, done = b.CatchUp(0)
	require.True(t, done)
	require.GreaterOrEqual(t, calls, sock.backlog)
	require.LessOrEqual(t, calls, sock.backlog+recvMessages)
	require.NotZero(t, waiting(t, sock.in))
}
