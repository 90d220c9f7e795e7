package cm_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
)

// The test checks the description of a path in a REQ, and the path that the other end derives from it.
func TestPaths(t *testing.T) {
	for name, tt := range map[string]struct {
		link ci.Link
		edit func(*cm.Path)
		wire mad.CMPath // without the GIDs
		back ci.AVAttr
		pkey ci.PKey
		mtu  mad.MTU
	}{
		"InfiniBand": {ci.LinkInfiniBand, func(p *cm.Path) { p.AV.SL, p.AV.StaticRate = 3, 5 },
			mad.CMPath{LocalLID: 1, RemoteLID: 2, SubnetLocal: true, SL: 3, Rate: 5, FlowLabel: 0x12345,
				AckTimeout: 15},
			ci.AVAttr{Port: 1, SL: 3, StaticRate: 5, DLID: 1, GRH: ci.GRH{FlowLabel: 0x12345}}, 0xffff, mad.MTU4096},
		"InfiniBand with GRH": {ci.LinkInfiniBand, func(p *cm.Path) {
			p.AV.Global, p.AV.GRH.HopLimit,
				p.AV.GRH.TrafficClass = true, 1, 6
		},
			mad.CMPath{LocalLID: 1, RemoteLID: 2, HopLimit: 1, TrafficClass: 6, FlowLabel: 0x12345, AckTimeout: 15},
			ci.AVAttr{Port: 1, DLID: 1, Global: true, GRH: ci.GRH{FlowLabel: 0x12345, HopLimit: 1, TrafficClass: 6}},
			0xffff, mad.MTU4096},
		"InfiniBand, to another subnet": {ci.LinkInfiniBand, func(p *cm.Path) {
			p.AV.Global, p.AV.GRH.HopLimit,
				p.AV.SL = true, 2, 3
		},
			mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, HopLimit: 2, SL: 3, FlowLabel: 0x12345, AckTimeout: 15},
			ci.AVAttr{Port: 1, SL: 3, DLID: 1, Global: true, GRH: ci.GRH{FlowLabel: 0x12345, HopLimit: 2}},
			0xffff, mad.MTU4096},
		"Ethernet": {ci.LinkEthernet, func(p *cm.Path) { p.LifeTime, p.AV.GRH.TrafficClass = 18, 0x6a },
			mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, HopLimit: 64, TrafficClass: 0x6a, FlowLabel: 0x12345,
				AckTimeout: 19},
			ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{FlowLabel: 0x12345, HopLimit: 64, TrafficClass: 0x6a}},
			0xffff, mad.MTU4096},
		"another partition, a smaller MTU": {ci.LinkInfiniBand, func(p *cm.Path) { p.PKey, p.MTU = 0x0001, ci.MTU1024 },
			mad.CMPath{LocalLID: 1, RemoteLID: 2, SubnetLocal: true, FlowLabel: 0x12345, AckTimeout: 15},
			ci.AVAttr{Port: 1, DLID: 1, GRH: ci.GRH{FlowLabel: 0x12345}}, 0x8001, mad.MTU1024},
		"an MTU above the port's": {ci.LinkEthernet, func(p *cm.Path) { p.MTU = 7 },
			mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, HopLimit: 64, FlowLabel: 0x12345, AckTimeout: 15},
			ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{FlowLabel: 0x12345, HopLimit: 64}}, 0xffff, mad.MTU4096},
	} {
		t.Run(name, func(t *testing.T) {
			inPairOn(t, tt.link, 1, cm.Config{}, func(t *testing.T, p *pair) {
				a, b := p.establish(func(c *cm.ConnectConfig) { tt.edit(&c.Primary) })
				req := b.Request()
				tt.wire.LocalGID, tt.wire.RemoteGID = p.a.attr(1).GIDs[0].GID, p.b.attr(1).GIDs[0].GID
				assert.Equal(t, tt.wire, req.REQ.Primary)
				assert.Equal(t, tt.mtu, req.PathMTU)
				assert.Equal(t, tt.pkey, ci.PKey(req.PKey))
				tt.back.GRH.DGID = p.a.attr(1).GIDs[0].GID
				assert.Equal(t, tt.back, req.Primary.AV)
				for _, c := range []cm.Conn{a, b} {
					_, attr, err := c.QPAttr(ci.QPInit)
					require.NoError(t, err)
					assert.Equal(t, tt.pkey == 0x8001, attr.Primary.PKeyIndex == 1)
					_, attr, err = c.QPAttr(ci.QPRTR)
					require.NoError(t, err)
					assert.Equal(t, ci.MTU(tt.mtu), attr.MTU)
					require.NoError(t, c.Close())
				}
			})
		})
	}
}

// A port with several LIDs receives requests at any of them and answers from the same LID. A request from another
// subnet has the router's LID in its datagram.
func TestLIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l := newNetwork(1), direct.NewLink()
		x := newNodeOn(t, n, cm.Config{}, testenv.Must(direct.New(l, direct.Config{LID: 8, LMC: 2})))
		ls := x.listen()
		base := mad.REQ{LocalCAGUID: 5, PKey: 0xffff, PathMTU: mad.MTU256, ServiceID: service1,
			Primary: mad.CMPath{LocalLID: 3, RemoteLID: 10, LocalGID: [16]byte{1}, RemoteGID: x.attr(1).GIDs[0].GID,
				SubnetLocal: true}}
		send := func(id, qpn uint32, from ci.LID, edit func(*mad.REQ)) {
			r := base
			r.LocalCommID, r.LocalQPN = id, qpn
			edit(&r)
			h := mad.CMHeader(1, &r)
			b := make([]byte, mad.Size)
			h.Put(b)
			r.Put(b[mad.HeaderLen:])
			x.m.Inject(x.port(1), b, from)
		}
		request := func(id uint32, edit func(*mad.REQ)) cm.Path {
			send(id, id, 77, edit)
			c := must(ls.Accept(t.Context()))
			p := c.Request().Primary
			require.NoError(t, c.Close())
			return p
		}
		p := request(1, func(*mad.REQ) {})
		assert.Equal(t, []any{ci.LID(3), uint8(2), false}, []any{p.AV.DLID, p.AV.PathBits, p.AV.Global})
		p = request(2, func(r *mad.REQ) {
			r.Primary.LocalLID, r.Primary.RemoteLID = 0xffff, 0xffff
			r.Primary.SubnetLocal, r.Primary.SL = false, 5
		})
		assert.Equal(t, []any{ci.LID(77), uint8(0), true}, []any{p.AV.DLID, p.AV.PathBits, p.AV.Global})
		assert.Zero(t, p.AV.SL, "the SL of the datagram")
		p = request(3, func(r *mad.REQ) { r.Primary.LocalGID, r.Primary.RemoteGID = [16]byte{}, [16]byte{} })
		assert.Equal(t, ci.LID(3), p.AV.DLID, "no GRH is needed within the subnet")

		same := func(*mad.REQ) {} // a peer that has lost its connection may send from another of its LIDs
		send(4, 4, 77, same)
		c := must(ls.Accept(t.Context()))
		send(5, 4, 80, same)
		assert.Equal(t, cm.StateREQRcvd, c.State(), "not from the peer's port")
		send(6, 4, 76, same)
		assert.Equal(t, cm.StateTimeWait, c.State())
		require.NoError(t, c.Close())
		require.NoError(t, ls.Close())
		x.close()
	})
}

// QP timeouts follow the path and the answering CA.
func TestAckTimeout(t *testing.T) {
	for _, tt := range []struct{ life, delay, want mad.TimeExp }{{18, 15, 19}, {0, 0, 2}, {10, 15, 15}, {14, 15, 16},
		{31, 31, 31}, {15, 0, 16}, {0, 31, 31}} {
		assert.Equal(t, tt.want, cm.AckTimeout(tt.life, tt.delay), fmt.Sprint(tt))
	}
}

// A REQ without an acknowledgement timeout does not disable the timeout of our QP, where 0 means no timeout.
func TestNoAckTimeout(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		l := s.x.listen()
		s.send(s.request(func(r *mad.REQ) { r.Primary.AckTimeout = 0 }))
		v := &situation{s: s, c: must(l.Accept(t.Context()))}
		require.NoError(t, l.Close())
		v.background(func(ctx context.Context) { _ = v.c.Accept(ctx, ourReply()) })
		set, a, err := v.c.QPAttr(ci.QPRTS)
		require.NoError(t, err)
		assert.NotZero(t, set&ci.QPFieldAckTimeout)
		assert.Equal(t, ci.TimeExp(1), a.Primary.AckTimeout)
		v.end()
	})
}
