package sim

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/link/internal/rocev2"
)

// several returns the addresses of host n.
func several(n byte) []netip.Addr {
	v6 := netip.MustParseAddr("fd00::").As16()
	v6[15] = n
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, n}), netip.AddrFrom16(v6),
		netip.AddrFrom4([4]byte{10, 1, 0, n})}
}

// TestSeveralAddresses checks that connections and datagrams use the addresses of the GIDs that they select.
func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	for i := range uint16(3) {
		for _, typ := range []ci.QPType{ci.RC, ci.UD} {
			t.Run(several(1)[i].String()+" "+typ.String(), func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				seen := map[netip.Addr]bool{}
				n := NewNetwork(NetworkConfig{Watch: func(d *Datagram) {
					mu.Lock()
					defer mu.Unlock()
					seen[d.From], seen[d.To] = true, true
				}})
				var nodes [2]*linktest.Node
				for k := range nodes {
					list := several(byte(1 + k))
					nodes[k] = linktest.Open(t, typ, 1<<20,
						testenv.Must(New(n, Config{Addr: list[0], Addrs: list[1:], Interface: "eth0"})))
					nodes[k].GID = i
				}
				a, b := nodes[0], nodes[1]
				require.Len(t, b.Attr.GIDs, 3)
				for k, e := range b.Attr.GIDs {
					require.Equal(t, ci.GIDEntry{GID: rocev2.GIDOf(several(2)[k]), Type: ci.GIDRoCEv2,
						Interface: "eth0"}, e)
				}
				if typ == ci.RC {
					linktest.ConnectBoth(a, b)
					linktest.Exercise(t, a, b)
				} else {
					sendDatagram(t, a, b)
				}
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, map[netip.Addr]bool{several(1)[i]: true, several(2)[i]: true}, seen)
			})
		}
	}
}

// sendDatagram sends one datagram from a to b, and checks the source address in its GRH.
func sendDatagram(t *testing.T, a, b *linktest.Node) {
	for _, n := range []*linktest.Node{a, b} {
		attr := ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 7}
		require.NoError(t, n.QP.Modify(ci.QPFieldsUDInit, attr))
		attr.State = ci.QPRTR
		require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTR, attr))
		attr.State = ci.QPRTS
		require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTS, attr))
	}
	av, err := a.PD.CreateAV(a.AV(b))
	require.NoError(t, err)
	defer func() { assert.NoError(t, av.Destroy()) }()
	b.Recv(ci.RecvWR{ID: 1, SGL: b.SGE(0, 100)})
	copy(a.Buf, "hello")
	a.Send(ci.SendWR{ID: 2, Flags: ci.SendSignaled, SGL: a.SGE(0, 5), To: ci.Dest{AV: av, QPN: b.QP.Num(), QKey: 7}})
	a.Poll(1)
	b.Poll(1)
	require.Equal(t, "hello", string(b.Buf[40:45]))
	want := rocev2.AddrOf(a.Attr.GIDs[a.GID].GID).AsSlice()
	if len(want) == 4 {
		require.Equal(t, want, b.Buf[32:36])
	} else {
		require.Equal(t, want, b.Buf[8:24])
	}
}

// TestAddressesComeAndGo checks the events and the GID table of an open adapter when its addresses change. A connection
// whose source address is removed ends with an error, and a new one from another address works.
func TestAddressesComeAndGo(t *testing.T) {
	t.Parallel()
	v := clock.NewVirtual(time.Hour)
	n := NewNetwork(NetworkConfig{Clock: v})
	open := func(host byte) (*linktest.Node, *Port) {
		p := testenv.Must(New(n, Config{Addr: several(host)[0], Addrs: several(host)[1:]}))
		c := linktest.Config(p)
		c.Clock = v
		return linktest.OpenConfig(t, ci.RC, 1<<12, c), p
	}
	a, port := open(1)
	b, _ := open(2)
	a.GID, b.GID = 2, 2
	linktest.ConnectBoth(a, b)
	table := func() (out []netip.Addr) {
		attr, err := a.CA.Query()
		require.NoError(t, err)
		for _, e := range attr.Ports[0].GIDs {
			out = append(out, rocev2.AddrOf(e.GID))
		}
		return out
	}
	change := func(list ...netip.Addr) {
		require.NoError(t, port.SetAddresses(list...))
		select {
		case e := <-a.Events:
			require.Equal(t, ci.Event{Type: ci.EventGIDChange, Port: 1}, e)
		case <-time.After(testenv.Patience):
			require.FailNow(t, "no event")
		}
	}
	all := several(1)
	require.Equal(t, all, table())
	change(all[:2]...)
	require.Equal(t, []netip.Addr{all[0], all[1], netip.IPv6Unspecified()}, table())
	a.Send(ci.SendWR{ID: 1, Op: ci.OpWrite, Flags: ci.SendSignaled})
	var wc [1]ci.WC
	for k := 0; ; k++ {
		got, err := a.CQ.Poll(wc[:])
		require.NoError(t, err)
		if got == 1 {
			break
		}
		require.Less(t, k, 1000)
		v.Advance(100 * time.Millisecond)
	}
	require.Equal(t, ci.WCTimeoutRetryErr, wc[0].Status)

	change(all...)
	require.Equal(t, all, table(), "the address has its index again")
	change(all[0], all[2], netip.MustParseAddr("fd00::77"))
	require.Equal(t, []netip.Addr{all[0], netip.IPv6Unspecified(), all[2], netip.MustParseAddr("fd00::77")}, table())
	err := port.SetAddresses(all[0], several(2)[0])
	require.ErrorContains(t, err, "another port of the network has the address")
	require.ErrorContains(t, port.SetAddresses(netip.MustParseAddr("224.0.0.1")), "unicast")
}
