package reference

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/impair"
	"ciddk/link/udp"
	"ciddk/rvt"
	"ciddk/wire"
)

// links returns constructors of connected ports, one for each kind of link.
func links() map[string]func() (a, b rvt.Port) {
	return map[string]func() (rvt.Port, rvt.Port){
		"direct": func() (rvt.Port, rvt.Port) {
			l := direct.NewLink()
			return testenv.Must(direct.New(l, direct.Config{})), testenv.Must(direct.New(l, direct.Config{}))
		},
		"UDP": func() (rvt.Port, rvt.Port) {
			return testenv.Must(udp.New(udp.Config{Addr: linktest.Addr()})),
				testenv.Must(udp.New(udp.Config{Addr: linktest.Addr()}))
		},
		"portable UDP": func() (rvt.Port, rvt.Port) {
			return testenv.Must(udp.New(udp.Config{Addr: linktest.Addr(), Portable: true})),
				testenv.Must(udp.New(udp.Config{Addr: linktest.Addr(), Portable: true}))
		},
	}
}

// newNode makes a node of an HCA.
func newNode(t testing.TB, c Config, typ ci.QPType, size int) *linktest.Node {
	t.Helper()
	h, err := New(c)
	require.NoError(t, err)
	return linktest.NewNode(t, h, typ, size)
}

func one(p rvt.Port) Config { return Config{Ports: []rvt.Port{p}} }

func TestRC(t *testing.T) {
	t.Parallel()
	for name, link := range links() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pa, pb := link()
			a, b := newNode(t, one(pa), ci.RC, 1<<20), newNode(t, one(pb), ci.RC, 1<<20)
			linktest.ConnectBoth(a, b)
			linktest.Exercise(t, a, b)
			linktest.Exercise(t, b, a)
			for k, n := range b.HCA.Counters() {
				if len(k) > 5 && k[:5] == "drop_" {
					assert.Zero(t, n, k)
				}
			}
		})
	}
}

// The same operations through a port that loses, duplicates, reorders, delays and corrupts packets: they succeed, but
// take longer.
func TestRCImpaired(t *testing.T) {
	t.Parallel()
	bad := impair.Model{Drop: 0.01, Duplicate: 0.01, Reorder: 0.01, Delay: 0.01, Corrupt: 0.01}
	for name, link := range links() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pa, pb := link()
			c := impair.Config{Seed: 7, Out: bad, In: bad}
			a, b := newNode(t, one(testenv.Must(impair.New(pa, c))), ci.RC, 1<<20),
				newNode(t, one(testenv.Must(impair.New(pb, c))), ci.RC, 1<<20)
			a.Hasty, b.Hasty = true, true
			linktest.ConnectBoth(a, b)
			linktest.Exercise(t, a, b)
			m := a.HCA.Counters()
			for _, k := range []string{"passed", "dropped", "duplicated", "reordered", "delayed", "corrupted"} {
				assert.Positive(t, m["impair_"+k], k)
			}
			assert.Positive(t, m["drop_icrc"])
		})
	}
}

func TestUD(t *testing.T) {
	t.Parallel()
	for name, link := range links() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pa, pb := link()
			a, b := newNode(t, one(pa), ci.UD, 1<<16), newNode(t, one(pb), ci.UD, 1<<16)
			for _, n := range []*linktest.Node{a, b} {
				require.NoError(t, n.QP.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 5}))
				require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}))
				require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS, SQPSN: 1}))
			}
			for _, global := range []bool{false, true} {
				attr := a.AV(b)
				attr.Global = attr.Global || global
				av, err := a.PD.CreateAV(attr)
				require.NoError(t, err)
				b.Recv(ci.RecvWR{ID: 1, SGL: b.SGE(0, 200)})
				a.Send(ci.SendWR{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, Inline: []byte("hello"),
					To: ci.Dest{AV: av, QPN: b.QP.Num(), QKey: 5}})
				a.Poll(1)
				wc := b.Poll(1)[0]
				assert.EqualValues(t, 45, wc.Length)
				assert.Equal(t, a.QP.Num(), wc.SrcQP)
				assert.Equal(t, "hello", string(b.Buf[40:45]))
				assert.Equal(t, attr.Global, wc.Flags&ci.WCGRH != 0)
				if attr.Global {
					g, err := wire.ParseGRHArea(b.Buf[:40])
					require.NoError(t, err)
					assert.EqualValues(t, a.Attr.GIDs[0].GID, g.SGID)
					if a.Attr.Link == ci.LinkEthernet {
						assert.EqualValues(t, 2, wc.SL, "the type of an IPv4 header")
					}
				}
				if a.Attr.Link == ci.LinkInfiniBand {
					assert.Equal(t, a.Attr.LID, wc.SLID)
				}
				require.NoError(t, av.Destroy())
			}
		})
	}
}

func TestMulticast(t *testing.T) {
	t.Parallel()
	for name, link := range links() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pa, pb := link()
			a, b := newNode(t, one(pa), ci.UD, 1<<16), newNode(t, one(pb), ci.UD, 1<<16)
			for _, n := range []*linktest.Node{a, b} {
				require.NoError(t, n.QP.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 5}))
				require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}))
				require.NoError(t, n.QP.Modify(ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS, SQPSN: 1}))
			}
			group := ci.GID{0: 0xff, 1: 0x12, 15: 9}
			if a.Attr.Link == ci.LinkEthernet {
				group = netip.MustParseAddr("239.88.1.2").As16()
			}
			m, err := b.QP.AttachMcast(ci.McastAttach{GID: group, LID: 0xc001})
			require.NoError(t, err)
			av, err := a.PD.CreateAV(ci.AVAttr{Port: 1, DLID: 0xc001, Global: true, GRH: ci.GRH{DGID: group}})
			require.NoError(t, err)
			b.Recv(ci.RecvWR{ID: 1, SGL: b.SGE(0, 200)})
			a.Send(ci.SendWR{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, Inline: []byte("all"),
				To: ci.Dest{AV: av, QPN: 0xffffff, QKey: 5}})
			a.Poll(1)
			assert.EqualValues(t, 43, b.Poll(1)[0].Length)
			assert.Equal(t, "all", string(b.Buf[40:43]))
			require.NoError(t, av.Destroy())
			require.NoError(t, m.Destroy())
		})
	}
}

// TestNewErrors checks the errors of New, and that New closes all ports when it fails.
func TestNewErrors(t *testing.T) {
	t.Parallel()
	l := direct.NewLink()
	good := func() rvt.Port { return testenv.Must(direct.New(l, direct.Config{})) }
	closed := func() rvt.Port {
		p := good()
		require.NoError(t, p.Close())
		return p
	}
	for _, c := range []struct {
		name string
		c    Config
		say  string
	}{
		{"no port", Config{}, "at least one"},
		{"nil port", Config{Ports: []rvt.Port{good(), nil}}, "Config.Ports[1] is nil"},
		{"nil pointer", Config{Ports: []rvt.Port{good(), (*direct.Port)(nil)}}, "Config.Ports[1] is nil"},
		{"second port", Config{Ports: []rvt.Port{good(), closed()}}, "port 2: direct: the port was started before, " +
			"or is closed"},
		{"description", Config{Ports: []rvt.Port{good()}, NodeDescription: string(make([]byte, 65))}, "65 bytes"},
		{"claims", Config{Ports: []rvt.Port{good()}, Caps: ci.CapUC | ci.CapUD}, "CapUD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.c)
			require.ErrorContains(t, err, c.say)
		})
	}
	p := good()
	defer func() { require.NoError(t, p.Close()) }()
	require.EqualValues(t, 1, p.Attr().LID, "a port that New got is still on the link")
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	guid := func(c Config) ci.GUID {
		h, err := New(c)
		require.NoError(t, err)
		defer func() { require.NoError(t, h.Close()) }()
		return h.Info().GUID
	}
	x, y := linktest.Addr(), linktest.Addr()
	assert.Equal(t, guid(one(testenv.Must(udp.New(udp.Config{Addr: x})))),
		guid(one(testenv.Must(udp.New(udp.Config{Addr: x})))))
	assert.NotEqual(t, guid(one(testenv.Must(udp.New(udp.Config{Addr: x})))),
		guid(one(testenv.Must(udp.New(udp.Config{Addr: y})))))
	assert.NotEqual(t, guid(one(testenv.Must(udp.New(udp.Config{Addr: x})))),
		guid(one(testenv.Must(udp.New(udp.Config{Addr: x, Port: 4792})))))
	l := direct.NewLink()
	assert.NotEqual(t, guid(one(testenv.Must(direct.New(l, direct.Config{})))),
		guid(one(testenv.Must(direct.New(l, direct.Config{})))))
	assert.EqualValues(t, 77, guid(Config{GUID: 77, Ports: []rvt.Port{testenv.Must(direct.New(l, direct.Config{}))}}))

	h, err := New(Config{Ports: []rvt.Port{testenv.Must(direct.New(l, direct.Config{})),
		testenv.Must(udp.New(udp.Config{Addr: x}))}, Attr: ci.CAAttr{VendorID: 5, MaxQPs: 3}, Caps: ^ci.CapUD})
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	a, err := ca.Query()
	require.NoError(t, err)
	assert.EqualValues(t, 5, a.VendorID)
	assert.Equal(t, 3, a.MaxQPs)
	assert.True(t, a.Caps.Has(ci.CapLocalMAD))
	assert.False(t, a.Caps.Has(ci.CapUD))
	assert.False(t, a.Caps.Has(ci.CapInitType), "the Ethernet port has none")
	require.NoError(t, ca.Destroy())
}

// The cable: its events, and the loss of packets while it is out.
func TestSetLink(t *testing.T) {
	t.Parallel()
	for name, link := range links() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pa, pb := link()
			a, b := newNode(t, one(testenv.Must(impair.New(pa, impair.Config{}))), ci.RC, 1<<20),
				newNode(t, one(pb), ci.RC, 1<<20)
			a.Hasty, b.Hasty = true, true
			linktest.ConnectBoth(a, b)
			event := func(want ci.EventType) {
				select {
				case e := <-a.Events:
					require.Equal(t, want, e.Type)
					require.EqualValues(t, 1, e.Port)
				case <-time.After(testenv.Patience):
					require.FailNow(t, "no event")
				}
			}
			require.NoError(t, a.HCA.SetLink(1, false))
			event(ci.EventPortDown)
			b.Recv(ci.RecvWR{SGL: b.SGE(0, 100)})
			a.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, Inline: []byte("late")})
			require.Eventually(t, func() bool { return a.HCA.Counters()["drop_send_failed"] > 0 }, testenv.Patience,
				time.Millisecond)
			require.NoError(t, a.HCA.SetLink(1, true))
			event(ci.EventPortActive)
			a.Poll(1)
			b.Poll(1)
			require.ErrorIs(t, a.HCA.SetLink(2, true), ci.InvalidPort)
		})
	}
}
