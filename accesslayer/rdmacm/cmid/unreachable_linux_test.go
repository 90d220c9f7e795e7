package cmid_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/internal/cmrig"
	"ciddk/internal/testenv"
)

// requireUnreachable checks the error of a Dial that the network reports, and that it ended sooner than without a
// report.
func requireUnreachable(t *testing.T, err error, cause syscall.Errno, to string, took time.Duration) {
	t.Helper()
	require.ErrorIs(t, err, cause)
	u, ok := errors.AsType[*cm.UnreachableError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, to, netip.AddrFrom16(u.To).Unmap().String())
	require.ErrorContains(t, err, "did not reach "+to)
	require.NotErrorIs(t, err, cm.ErrTimeout)
	require.Less(t, took, 9*time.Second, "sooner than without a report")
}

// TestDialNoProcess tests a machine on which no process receives RDMA packets: the Dial ends at once.
func TestDialNoProcess(t *testing.T) {
	const here, there = "127.0.0.2", "127.0.0.3"
	testenv.Addresses(t, cmrig.UDPPort, here)
	l := &lan{Open: open}
	h := l.Host(t, here)
	for _, space := range []cmid.IDConfig{{}, {Space: cmid.UDP}} {
		start := time.Now()
		_, err := h.M.Dial(cmrig.Within(t), netip.AddrPortFrom(netip.MustParseAddr(there), 7174),
			cmid.DialConfig{ID: space})
		requireUnreachable(t, err, syscall.ECONNREFUSED, there, time.Since(start))
	}
	// An earlier error does not affect a later Dial to the peer.
	testenv.Addresses(t, cmrig.UDPPort, there)
	s := l.Host(t, there)
	ln, err := s.M.Listen(ap(there+":7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	peer := serve(t, ln, nil, cmid.ConnParam{})
	id, err := h.M.Dial(cmrig.Within(t), ap(there+":7174"), cmid.DialConfig{})
	require.NoError(t, err)
	require.NoError(t, (<-peer).err)
	require.NoError(t, id.Close())
}

// TestDialNoMachine tests an address on the local network without a machine: neighbor discovery reports it after three
// seconds.
func TestDialNoMachine(t *testing.T) {
	if testenv.Namespace(t, `ip link set lo up
		ip link add v0 type veth peer name v1
		ip addr add 10.77.0.1/24 dev v0
		ip addr add fd77::1/64 dev v0 nodad
		ip link set v0 up
		ip link set v1 up`) {
		dialNoMachine(t)
	}
}

func dialNoMachine(t *testing.T) {
	for here, there := range map[string]string{"10.77.0.1": "10.77.0.9", "fd77::1": "fd77::9"} {
		t.Run(here, func(t *testing.T) {
			t.Parallel()
			l := &lan{Open: open}
			h := l.Host(t, here)
			start := time.Now()
			_, err := h.M.Dial(cmrig.Within(t), netip.AddrPortFrom(netip.MustParseAddr(there), 7174), cmid.DialConfig{})
			requireUnreachable(t, err, syscall.EHOSTUNREACH, there, time.Since(start))
			assert.ErrorContains(t, err, "no route to host")
		})
	}
}
