//go:build amd64 || arm64

package kernelcm_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/hca/verbs"
	"ciddk/kernelcm"
	"ciddk/mad"
)

// open opens the devices of the machine, and returns an address of one of them. The tests are for machines with RDMA
// devices; test/verbs runs them on the software adapter.
func open(t *testing.T) (*rdmacm.Manager, netip.Addr) {
	names, err := verbs.Devices()
	if err != nil || len(names) == 0 {
		t.Skipf("no RDMA device: %v (test/verbs runs these tests with ddkrun)", err)
	}
	cfg := kernelcm.Config{Logger: slog.New(slog.DiscardHandler)}
	opened.Do(func() {
		m, err := kernelcm.Open(cfg)
		require.NoError(t, err)
		require.NoError(t, m.Close())
	})
	files := descriptors(t)
	m, err := kernelcm.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, m.Close())
		goleak.VerifyNone(t)
		assert.Equal(t, files, descriptors(t))
	})
	for _, a := range m.AL().Adapters() {
		for _, p := range a.Attr().Ports {
			for _, g := range p.GIDs {
				if ip := netip.AddrFrom16(g.GID).Unmap(); ip.Is4() {
					return m, ip
				}
			}
		}
	}
	t.Skip("no device has an IPv4 address")
	return nil, netip.Addr{}
}

// opened is done when the files are open that the process has for good, such as the poller's.
var opened sync.Once

// descriptors returns the number of the process's open files.
func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestConnections(t *testing.T) {
	m, addr := open(t)
	l, err := m.Listen(netip.AddrPortFrom(addr, 0), rdmacm.ListenConfig{})
	require.NoError(t, err)
	const n = 8
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			c, err := m.Dial(t.Context(), l.Addr().AddrPort)
			if !assert.NoError(t, err) {
				return
			}
			assert.NoError(t, c.Send(t.Context(), []byte("ping")))
			b, err := c.Recv(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, "ping", string(b))
			assert.NoError(t, c.Close())
		})
	}
	for range n {
		r, err := l.Accept(t.Context())
		require.NoError(t, err)
		all.Go(func() {
			c, err := r.Accept(t.Context())
			if !assert.NoError(t, err) {
				return
			}
			b, err := c.Recv(t.Context())
			assert.NoError(t, err)
			assert.NoError(t, c.Send(t.Context(), b))
			<-c.Done()
			assert.ErrorIs(t, c.Err(), rdmacm.ErrEnded)
			assert.NoError(t, c.Close())
		})
	}
	all.Wait()
	require.NoError(t, l.Close())
}

func TestRejected(t *testing.T) {
	m, addr := open(t)
	l, err := m.Listen(netip.AddrPortFrom(addr, 0), rdmacm.ListenConfig{})
	require.NoError(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := m.Dial(t.Context(), l.Addr().AddrPort)
		failed <- err
	}()
	r, err := l.Accept(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Reject([]byte("no")))
	err = <-failed
	reject, ok := errors.AsType[*cm.RejectError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, mad.RejConsumer, reject.Reason)
	assert.Equal(t, "no", string(reject.Private[:2]))

	require.NoError(t, l.Close())
	_, err = m.Dial(t.Context(), l.Addr().AddrPort)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED) // nobody listens
}

func TestCanceled(t *testing.T) {
	m, addr := open(t)
	l, err := m.Listen(netip.AddrPortFrom(addr, 0), rdmacm.ListenConfig{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := m.Dial(ctx, l.Addr().AddrPort)
		failed <- err
	}()
	r, err := l.Accept(t.Context())
	require.NoError(t, err)
	cancel()
	assert.ErrorIs(t, <-failed, context.Canceled)
	_, err = r.Accept(t.Context()) // the kernel has rejected what its end has given up
	assert.Error(t, err)

	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept(t.Context())
		ended <- err
	}()
	require.NoError(t, l.Close())
	assert.ErrorIs(t, <-ended, net.ErrClosed)
}

func TestPorts(t *testing.T) {
	m, addr := open(t)
	l, err := m.Listen(netip.AddrPortFrom(addr, 0), rdmacm.ListenConfig{})
	require.NoError(t, err)
	for _, at := range []netip.Addr{addr, netip.IPv4Unspecified(), {}} {
		_, err = m.Listen(netip.AddrPortFrom(at, l.Addr().Port()), rdmacm.ListenConfig{})
		assert.True(t, errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL), "%v: %v", at, err)
	}
	require.NoError(t, l.Close())
	for _, at := range []netip.Addr{addr, netip.IPv4Unspecified(), {}} {
		l, err = m.Listen(netip.AddrPortFrom(at, l.Addr().Port()), rdmacm.ListenConfig{})
		require.NoError(t, err, "%v", at)
		require.NoError(t, l.Close())
	}
	_, err = m.Listen(netip.MustParseAddrPort("203.0.113.1:7174"), rdmacm.ListenConfig{})
	assert.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
}

func TestDatagrams(t *testing.T) {
	m, addr := open(t)
	server, err := m.ListenDatagram(netip.AddrPortFrom(addr, 0), rdmacm.DatagramConfig{})
	require.NoError(t, err)
	client, err := m.ListenDatagram(netip.AddrPortFrom(addr, 0), rdmacm.DatagramConfig{})
	require.NoError(t, err)
	peer, err := client.Lookup(t.Context(), server.LocalAddr().AddrPort)
	require.NoError(t, err)
	require.NoError(t, client.SendTo(t.Context(), []byte("ping"), peer))
	b := make([]byte, 64)
	n, from, err := server.RecvFrom(t.Context(), b)
	require.NoError(t, err)
	assert.Equal(t, "ping", string(b[:n]))
	require.NoError(t, server.SendTo(t.Context(), []byte("pong"), from))
	n, _, err = client.RecvFrom(t.Context(), b)
	require.NoError(t, err)
	assert.Equal(t, "pong", string(b[:n]))
	require.NoError(t, client.Close())
	require.NoError(t, server.Close())
}

// TestRemoteMemory reads and writes memory of the peer, over one of many connections, with the largest message.
func TestRemoteMemory(t *testing.T) {
	m, addr := open(t)
	l, err := m.Listen(netip.AddrPortFrom(addr, 0), rdmacm.ListenConfig{})
	require.NoError(t, err)
	table := make([]byte, 1<<16)
	memory := m.NewMemory(ci.Bytes(table), ci.LocalWrite|ci.RemoteRead|ci.RemoteWrite)
	served := make(chan *rdmacm.Conn, 1)
	go func() {
		r, err := l.Accept(t.Context())
		if !assert.NoError(t, err) {
			return
		}
		c, err := r.Accept(t.Context())
		assert.NoError(t, err)
		served <- c
	}()
	c, err := m.Dial(t.Context(), l.Addr().AddrPort)
	require.NoError(t, err)
	s := <-served
	region, err := memory.Region(s)
	require.NoError(t, err)
	want := make([]byte, len(table))
	for i := range want {
		want[i] = byte(i * 7)
	}
	require.NoError(t, c.Write(t.Context(), region, want))
	assert.Equal(t, want, table)
	got := make([]byte, len(table))
	require.NoError(t, c.Read(t.Context(), got, region))
	assert.Equal(t, want, got)
	require.NoError(t, c.Close())
	require.NoError(t, s.Close())
	require.NoError(t, memory.Close())
	require.NoError(t, l.Close())
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		cfg  kernelcm.Config
		want string
	}{
		{kernelcm.Config{Device: "a", Interface: "b"}, "exclude"},
		{kernelcm.Config{Software: true}, "needs an Interface"},
		{kernelcm.Config{Interface: "nosuch", Software: true}, "nosuch"},
		{kernelcm.Config{Device: "nosuch"}, ""},
	} {
		_, err := kernelcm.Open(tt.cfg)
		assert.ErrorContains(t, err, tt.want)
	}
}

// TestSoftware opens the software adapter on an interface that has no RDMA device.
func TestSoftware(t *testing.T) {
	names, err := verbs.Devices()
	if err == nil && len(names) > 0 {
		t.Skip("the loopback interface may have an RDMA device here")
	}
	m, err := kernelcm.Open(kernelcm.Config{Interface: "lo", Software: true, Logger: slog.New(slog.DiscardHandler)})
	if errors.Is(err, syscall.EADDRINUSE) {
		t.Skip("another program has the port of RoCEv2 at the loopback address")
	}
	require.NoError(t, err)
	require.NoError(t, m.Close())
}
