package reference

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
	"ciddk/wire"
)

// links gives a pair of port configurations of every kind.
func links() map[string]func() (a, b PortConfig) {
	return map[string]func() (PortConfig, PortConfig){
		"direct": func() (PortConfig, PortConfig) {
			l := NewDirectLink()
			return Direct(l, DirectConfig{}), Direct(l, DirectConfig{})
		},
		"UDP": func() (PortConfig, PortConfig) {
			return UDP(UDPConfig{Addr: testAddr()}), UDP(UDPConfig{Addr: testAddr()})
		},
		"portable UDP": func() (PortConfig, PortConfig) {
			return UDP(UDPConfig{Addr: testAddr(), Portable: true}), UDP(UDPConfig{Addr: testAddr(), Portable: true})
		},
	}
}

func one(p PortConfig) Config { return Config{Ports: []PortConfig{p}} }

func TestRC(t *testing.T) {
	t.Parallel()
	for name, link := range links() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pa, pb := link()
			a, b := newNode(t, one(pa), ci.RC, 1<<20), newNode(t, one(pb), ci.RC, 1<<20)
			connectBoth(a, b)
			exercise(t, a, b)
			exercise(t, b, a)
			for k, n := range b.hca.Counters() {
				if len(k) > 5 && k[:5] == "drop_" {
					assert.Zero(t, n, k)
				}
			}
		})
	}
}

// The same through a port that loses, doubles, reorders, delays and corrupts: it only takes longer.
func TestRCImpaired(t *testing.T) {
	t.Parallel()
	bad := Impairment{Drop: 0.01, Duplicate: 0.01, Reorder: 0.01, Delay: 0.01, Corrupt: 0.01}
	for name, link := range links() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pa, pb := link()
			c := ImpairConfig{Seed: 7, Out: bad, In: bad}
			a, b := newNode(t, one(Impair(pa, c)), ci.RC, 1<<20), newNode(t, one(Impair(pb, c)), ci.RC, 1<<20)
			a.hasty, b.hasty = true, true
			connectBoth(a, b)
			exercise(t, a, b)
			m := a.hca.Counters()
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
			for _, n := range []*node{a, b} {
				require.NoError(t, n.qp.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 5}))
				require.NoError(t, n.qp.Modify(ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}))
				require.NoError(t, n.qp.Modify(ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS, SQPSN: 1}))
			}
			for _, global := range []bool{false, true} {
				attr := a.av(b)
				attr.Global = attr.Global || global
				av, err := a.pd.CreateAV(attr)
				require.NoError(t, err)
				b.recv(ci.RecvWR{ID: 1, SGL: b.sge(0, 200)})
				a.send(ci.SendWR{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, Inline: []byte("hello"), To: ci.Dest{AV: av, QPN: b.qp.Num(), QKey: 5}})
				a.poll(1)
				wc := b.poll(1)[0]
				assert.EqualValues(t, 45, wc.Length)
				assert.Equal(t, a.qp.Num(), wc.SrcQP)
				assert.Equal(t, "hello", string(b.buf[40:45]))
				assert.Equal(t, attr.Global, wc.Flags&ci.WCGRH != 0)
				if attr.Global {
					g, err := wire.ParseGRHArea(b.buf[:40])
					require.NoError(t, err)
					assert.EqualValues(t, a.attr.GIDs[0].GID, g.SGID)
				}
				if a.attr.Link == ci.LinkInfiniBand {
					assert.Equal(t, a.attr.LID, wc.SLID)
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
			for _, n := range []*node{a, b} {
				require.NoError(t, n.qp.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 5}))
				require.NoError(t, n.qp.Modify(ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}))
				require.NoError(t, n.qp.Modify(ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS, SQPSN: 1}))
			}
			group := ci.GID{0: 0xff, 1: 0x12, 15: 9}
			if a.attr.Link == ci.LinkEthernet {
				group = gidOf(netip.MustParseAddr("239.88.1.2"))
			}
			m, err := b.qp.AttachMcast(ci.McastAttach{GID: group, LID: 0xc001})
			require.NoError(t, err)
			av, err := a.pd.CreateAV(ci.AVAttr{Port: 1, DLID: 0xc001, Global: true, GRH: ci.GRH{DGID: group}})
			require.NoError(t, err)
			b.recv(ci.RecvWR{ID: 1, SGL: b.sge(0, 200)})
			a.send(ci.SendWR{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, Inline: []byte("all"), To: ci.Dest{AV: av, QPN: 0xffffff, QKey: 5}})
			a.poll(1)
			assert.EqualValues(t, 43, b.poll(1)[0].Length)
			assert.Equal(t, "all", string(b.buf[40:43]))
			require.NoError(t, av.Destroy())
			require.NoError(t, m.Destroy())
		})
	}
}

func TestNewErrors(t *testing.T) {
	t.Parallel()
	l := NewDirectLink()
	good := func() PortConfig { return Direct(l, DirectConfig{}) }
	taken := testAddr()
	h, err := New(one(UDP(UDPConfig{Addr: taken})))
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	for _, c := range []struct {
		name string
		c    Config
		say  string
	}{
		{"no port", Config{}, "at least one"},
		{"zero port", Config{Ports: []PortConfig{good(), {}}}, "port 2 is the zero PortConfig"},
		{"second port", Config{Ports: []PortConfig{good(), UDP(UDPConfig{Addr: taken})}}, "port 2"},
		{"description", Config{Ports: []PortConfig{good()}, NodeDescription: string(make([]byte, 65))}, "65 bytes"},
		{"LID", one(Direct(l, DirectConfig{LID: 0xc000})), "no unicast LID"},
		{"LMC", one(Direct(l, DirectConfig{LID: 1, LMC: 1})), "low LMC bits"},
		{"LMC without LID", one(Direct(l, DirectConfig{LMC: 1})), "needs a LID"},
		{"state", one(Direct(l, DirectConfig{State: 9})), "want Down, Init"},
		{"MTU", one(Direct(l, DirectConfig{MTU: 6})), "MTU code 6"},
		{"P_Keys", one(Direct(l, DirectConfig{PKeys: make([]ci.PKey, 17)})), "17 P_Keys"},
		{"link", one(Direct(nil, DirectConfig{})), "NewDirectLink"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.c)
			require.ErrorContains(t, err, c.say)
			require.Empty(t, l.now().all, "what was opened has been closed")
		})
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	guid := func(c Config) ci.GUID {
		h, err := New(c)
		require.NoError(t, err)
		defer func() { require.NoError(t, h.Close()) }()
		return h.Info().GUID
	}
	x, y := testAddr(), testAddr()
	assert.Equal(t, guid(one(UDP(UDPConfig{Addr: x}))), guid(one(UDP(UDPConfig{Addr: x}))))
	assert.NotEqual(t, guid(one(UDP(UDPConfig{Addr: x}))), guid(one(UDP(UDPConfig{Addr: y}))))
	assert.NotEqual(t, guid(one(UDP(UDPConfig{Addr: x}))), guid(one(UDP(UDPConfig{Addr: x, Port: 4792}))))
	assert.NotEqual(t, guidOf(netip.IPv6Loopback(), 1), guidOf(netip.IPv6Loopback(), 2))
	l := NewDirectLink()
	assert.NotEqual(t, guid(one(Direct(l, DirectConfig{}))), guid(one(Direct(l, DirectConfig{}))))
	assert.EqualValues(t, 77, guid(Config{GUID: 77, Ports: []PortConfig{Direct(l, DirectConfig{})}}))

	h, err := New(Config{Ports: []PortConfig{Direct(l, DirectConfig{}), UDP(UDPConfig{Addr: x})}, Attr: ci.CAAttr{VendorID: 5, MaxQPs: 3}, Caps: ^ci.CapUD})
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

// LIDs: assigned, configured, refused; given back when the port goes.
func TestDirectLIDs(t *testing.T) {
	t.Parallel()
	l := NewDirectLink()
	lid := func(c DirectConfig) (*HCA, ci.LID) {
		h, err := New(one(Direct(l, c)))
		require.NoError(t, err)
		return h, h.ports[0].Attr().LID
	}
	a, x := lid(DirectConfig{})
	b, y := lid(DirectConfig{LID: 4, LMC: 2})
	c, z := lid(DirectConfig{})
	assert.EqualValues(t, 1, x)
	assert.EqualValues(t, 4, y)
	assert.EqualValues(t, 2, z)
	_, err := New(one(Direct(l, DirectConfig{LID: 7})))
	require.ErrorContains(t, err, "LID 0x7 is taken")
	require.NoError(t, a.Close())
	a, x = lid(DirectConfig{})
	assert.EqualValues(t, 1, x)
	w, v := lid(DirectConfig{State: ci.PortInit})
	assert.EqualValues(t, 0, v, "a subnet manager assigns it")
	for _, h := range []*HCA{a, b, c, w} {
		require.NoError(t, h.Close())
	}
	require.Empty(t, l.now().all)
}

// The cable: events, and packets that go nowhere in between.
func TestSetLink(t *testing.T) {
	t.Parallel()
	for name, link := range links() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pa, pb := link()
			a, b := newNode(t, one(Impair(pa, ImpairConfig{})), ci.RC, 1<<20), newNode(t, one(pb), ci.RC, 1<<20)
			a.hasty, b.hasty = true, true
			connectBoth(a, b)
			event := func(want ci.EventType) {
				select {
				case e := <-a.events:
					require.Equal(t, want, e.Type)
					require.EqualValues(t, 1, e.Port)
				case <-time.After(10 * time.Second):
					require.FailNow(t, "no event")
				}
			}
			require.NoError(t, a.hca.SetLink(1, false))
			event(ci.EventPortDown)
			b.recv(ci.RecvWR{SGL: b.sge(0, 100)})
			a.send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, Inline: []byte("late")})
			require.Eventually(t, func() bool { return a.hca.Counters()["drop_send_failed"] > 0 }, 10*time.Second, time.Millisecond)
			require.NoError(t, a.hca.SetLink(1, true))
			event(ci.EventPortActive)
			a.poll(1)
			b.poll(1)
			require.ErrorIs(t, a.hca.SetLink(2, true), ci.InvalidPort)
		})
	}
}

// An armed port takes data, and the first packet makes it active; an initialised one takes none.
func TestDirectStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, after ci.PortState
		got          int
	}{{ci.PortDown, ci.PortDown, 0}, {ci.PortInit, ci.PortInit, 0}, {ci.PortArmed, ci.PortActive, 1}, {ci.PortActive, ci.PortActive, 1}} {
		t.Run(c.state.String(), func(t *testing.T) {
			t.Parallel()
			l := NewDirectLink()
			from, err := openDirect(l, DirectConfig{}, portEnv{num: 1, guid: 1})
			require.NoError(t, err)
			to, err := openDirect(l, DirectConfig{LID: 9, State: c.state}, portEnv{num: 1, guid: 2})
			require.NoError(t, err)
			rf, rt := newCollector(), newCollector()
			require.NoError(t, from.Start(rf))
			require.NoError(t, to.Start(rt))
			rdest, err := from.Route(&ci.AVAttr{DLID: 9}, rvt.Flow{})
			require.NoError(t, err)
			from.Send([]rvt.Packet{{Op: wire.OpSend, N: 1, DestQP: 5, Route: rdest}})
			assert.Len(t, rt.taken(), c.got)
			assert.Equal(t, 1-c.got, rt.count(rvt.DropNotForUs))
			assert.Equal(t, c.after, to.Attr().State)
			from.Send([]rvt.Packet{{Op: wire.OpSend, N: 1, DestQP: 0, Route: rdest}})
			assert.Equal(t, c.state != ci.PortDown, len(rt.taken()) == 1, "subnet management from Init on")
			require.NoError(t, to.Close())
			require.NoError(t, to.Close())
			from.Send([]rvt.Packet{{Op: wire.OpSend, N: 3, DestQP: 5, Route: rdest}})
			assert.Equal(t, 3, rf.count(rvt.DropSendFailed))
			require.NoError(t, from.Close())
		})
	}
}

func TestDirectRoutes(t *testing.T) {
	t.Parallel()
	l := NewDirectLink()
	p, err := openDirect(l, DirectConfig{LID: 4, LMC: 2}, portEnv{num: 1, guid: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	r := newCollector()
	require.NoError(t, p.Start(r))
	own := p.Attr().GIDs[0].GID
	for _, c := range []struct {
		name string
		av   ci.AVAttr
		want ci.Status
	}{
		{"no LID", ci.AVAttr{}, ci.InvalidParameter},
		{"unknown GID", ci.AVAttr{Global: true, GRH: ci.GRH{DGID: ci.GID{1}}}, ci.InvalidParameter},
		{"source GID", ci.AVAttr{Global: true, DLID: 4, GRH: ci.GRH{SGIDIndex: 1}}, ci.InvalidIndex},
		{"multicast without GRH", ci.AVAttr{DLID: 0xc001}, ci.InvalidParameter},
		{"multicast to a unicast GID", ci.AVAttr{DLID: 0xc001, Global: true, GRH: ci.GRH{DGID: own}}, ci.InvalidParameter},
		{"by GID", ci.AVAttr{Global: true, GRH: ci.GRH{DGID: own}}, ci.Success},
	} {
		_, err := p.Route(&c.av, rvt.Flow{})
		assert.Equal(t, c.want, ci.StatusOf(err), c.name)
	}
	// To itself, at another of its LIDs, from another of its LIDs.
	rt, err := p.Route(&ci.AVAttr{DLID: 6, PathBits: 7, SL: 3}, rvt.Flow{})
	require.NoError(t, err)
	p.Send([]rvt.Packet{{Op: wire.OpSend, N: 1, DestQP: 5, Route: rt}})
	got := r.taken()
	require.Len(t, got, 1)
	assert.Equal(t, rvt.Addr{LID: 7}, got[0].Src)
	assert.EqualValues(t, 2, got[0].PathBits)
	assert.EqualValues(t, 3, got[0].SL)
}

// The fate of packets is the seed's, whatever the timing.
func TestImpairReplays(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (fates []string) {
		in := &nullPort{send: func(pkts []rvt.Packet) {
			for _, k := range pkts {
				fates = append(fates, fmt.Sprint(k.PSN))
			}
			fates = append(fates, "|")
		}}
		p := newImpairPort(in, ImpairConfig{Seed: seed, Out: Impairment{Drop: 0.2, Duplicate: 0.2, Reorder: 0.2, Corrupt: 0.2, MaxDelay: time.Hour}}, stoppedClock{}).(*impairPort)
		for psn := range ci.PSN(50) {
			p.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: psn * 10, N: 3, MTU: 256, Len: 600, Payload: [][]byte{make([]byte, 600)}}})
		}
		return fates
	}
	assert.Equal(t, run(1), run(1))
	assert.NotEqual(t, run(1), run(2))
}

type stoppedClock struct{}

func (stoppedClock) Now() time.Duration                          { return 0 }
func (stoppedClock) AfterFunc(time.Duration, func()) clock.Timer { return stoppedTimer{} }

type stoppedTimer struct{}

func (stoppedTimer) Stop() bool               { return true }
func (stoppedTimer) Reset(time.Duration) bool { return true }

type nullPort struct {
	rvt.Port
	send func([]rvt.Packet)
}

func (p *nullPort) Send(pkts []rvt.Packet) { p.send(pkts) }

func TestImpairFilter(t *testing.T) {
	t.Parallel()
	l := NewDirectLink()
	verdicts := map[ci.PSN]Verdict{0: Pass, 1: Drop, 2: Duplicate, 3: Reorder, 5: Corrupt}
	seen := [2]int{}
	p, err := Impair(Direct(l, DirectConfig{}), ImpairConfig{Filter: func(d Dir, p *rvt.Packet) Verdict {
		seen[d]++
		if d == In {
			return Chance
		}
		return verdicts[p.PSN]
	}}).open(portEnv{clock: stoppedClock{}, num: 1, guid: 1})
	require.NoError(t, err)
	r := newCollector()
	require.NoError(t, p.Start(r))
	rt, err := p.Route(&ci.AVAttr{DLID: 1}, rvt.Flow{})
	require.NoError(t, err)
	require.False(t, p.Hints().Lossless)
	body := make([]byte, 6*256+10)
	fillBytes(body, 1)
	p.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, Ack: true, N: 7, MTU: 256, Len: uint32(len(body)), Payload: [][]byte{body[:300], body[300:]}, Route: rt}})
	p.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, PSN: 7, N: 1, Route: rt}, {Service: wire.RC, Op: wire.OpSend, PSN: 8, N: 1, Route: rt}})
	var order []ci.PSN
	for _, k := range r.taken() {
		order = append(order, k.PSN)
		if k.PSN < 6 {
			assert.Equal(t, body[256*k.PSN:256*k.PSN+256], bytes.Join(k.Payload, nil))
			assert.False(t, k.End || k.Ack)
		}
		assert.Equal(t, k.PSN == 0, k.Start)
	}
	assert.Equal(t, []ci.PSN{0, 2, 2}, order[:3])
	assert.ElementsMatch(t, []ci.PSN{0, 2, 2, 3, 4, 6, 7, 8}, order)
	assert.NotEqual(t, ci.PSN(3), order[3], "held back")
	assert.Equal(t, 1, r.count(rvt.DropICRC))
	assert.Equal(t, [2]int{9, 8}, seen)
	require.NoError(t, p.Close())
}

// A bit that the ICRC does not cover comes through; every other is caught.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := rvt.Packet{Service: wire.RC, Op: wire.OpWrite, Start: true, End: true, PKey: 0xffff, N: 1, MTU: 256, VA: 1, RKey: 2, DMALen: 8, Len: 8, Payload: [][]byte{{1, 2, 3}, {4, 5, 6, 7, 8}}}
		q := p
		bit := rnd.Uint32()
		size := uint32(wire.PacketLen(wire.RCWriteOnly, 8))
		at := bit % (8 * size) / 8
		ok := corrupt(&q, bit)
		require.Equal(t, at == 4, ok, "byte %d", at)
		if ok {
			q.Payload, p.Payload = nil, nil
			require.Equal(t, p, q)
		}
	}
}
