package reference

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/clock"
)

// waiting returns how many bytes wait in a socket.
func waiting(t *testing.T, fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	require.NoError(t, err)
	return n
}

// TestAckInSocket: an acknowledgement that lies in the socket when the transport timer fires, since whoever holds the receive lock does not
// run, is no timeout. The QP's clock is virtual: it goes on only here.
func TestAckInSocket(t *testing.T) {
	c := clock.NewVirtual(time.Hour)
	a := newNode(t, Config{Clock: c, Ports: []PortConfig{UDP(UDPConfig{Addr: testAddr()})}}, ci.RC, 4096)
	b := newNode(t, Config{Ports: []PortConfig{UDP(UDPConfig{Addr: testAddr()})}}, ci.RC, 4096)
	a.connect(b)
	b.connect(a)
	b.recv(ci.RecvWR{SGL: b.sge(0, 100)})
	sock := a.hca.ports[0].(*udpPort).sock.(*mmsgSocket)

	sock.recvMu.Lock() // as its holder would that the system has put aside
	a.send(ci.SendWR{ID: 1, Flags: ci.SendSignaled, SGL: a.sge(0, 100)})
	require.Eventually(t, func() bool { return waiting(t, sock.in) > 0 }, 10*time.Second, time.Millisecond)
	attr, err := a.qp.Query()
	require.NoError(t, err)
	timeout := 4096 * time.Nanosecond << attr.Primary.AckTimeout
	c.Advance(2 * timeout)
	require.Zero(t, a.hca.Counters()["retries"])
	require.NotZero(t, a.hca.Counters()["retries_postponed"])
	sock.recvMu.Unlock()

	require.Eventually(t, func() bool { return waiting(t, sock.in) == 0 }, 10*time.Second, time.Millisecond)
	func() {
		sock.recvMu.Lock() // what was received has been delivered
		defer sock.recvMu.Unlock()
	}()
	c.Advance(10 * timeout)
	require.Zero(t, a.hca.Counters()["retries"])
	var wc [1]ci.WC
	n, err := a.cq.Poll(wc[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, ci.WCSuccess, wc[0].Status)
}

// TestCatchUp: the timer's own goroutine receives what the port's goroutine has not. A flood does not hold it for ever.
func TestCatchUp(t *testing.T) {
	p, err := openUDP(UDPConfig{Addr: testAddr()}, clock.Real())
	require.NoError(t, err)
	b := p.(*udpPort)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	sock := b.sock.(*mmsgSocket)
	r := newCollector()
	b.recv = r
	sock.rx = newRecvBatch(b, false) // as after Start, without the goroutine
	a, _ := openTest(t, UDPConfig{})
	trains := sampleTrains(routeTo(t, a, b))
	a.Send(trains)
	want := packetCount(trains)
	require.NotZero(t, waiting(t, sock.in))
	_, done := b.CatchUp(0)
	require.True(t, done)
	require.Equal(t, want, packetCount(r.taken()))

	sock.recvMu.Lock()
	_, done = b.CatchUp(0)
	require.False(t, done, "somebody else receives")
	sock.recvMu.Unlock()

	sock.backlog = 10 // of a small buffer
	calls := 0
	r.each = func() { // for each packet that is delivered, another one comes
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
