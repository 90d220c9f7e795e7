package cm_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// TestRejects checks the reject reasons of the manager, and the acceptable values in the additional information.
func TestRejects(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		l := s.x.listen()
		gid := s.x.attr(1).GIDs[0].GID
		ib := s.x.attr(1).Link == ci.LinkInfiniBand
		lid := []byte{0, byte(s.x.attr(1).LID)}
		alternate := func(edit func(*mad.CMPath)) func(*mad.REQ) {
			return func(r *mad.REQ) { r.Alternate = s.wire(2); edit(&r.Alternate) }
		}
		gid2, lid2 := s.x.attr(2).GIDs[0].GID, []byte{0, byte(s.x.attr(2).LID)}
		for name, tt := range map[string]struct {
			edit   func(*mad.REQ)
			reason mad.RejReason
			info   []byte
			drop   cm.Drop
			only   bool // InfiniBand only
		}{
			"no listener": {func(r *mad.REQ) { r.ServiceID++ }, mad.RejInvalidServiceID, nil,
				cm.DropUnserved, false},
			"RD": {func(r *mad.REQ) { r.Service = mad.ServiceRD }, mad.RejInvalidTransport, nil,
				cm.DropInvalid, false},
			"XRC": {func(r *mad.REQ) {
				r.Service, r.ExtendedService = mad.ServiceExtended,
					mad.ExtendedXRC
			}, mad.RejInvalidTransport, nil, cm.DropInvalid, false},
			"MTU of 0": {func(r *mad.REQ) { r.PathMTU = 0 }, mad.RejInvalidMTU, []byte{5},
				cm.DropInvalid, false},
			"MTU too large": {func(r *mad.REQ) { r.PathMTU = 6 }, mad.RejInvalidMTU, []byte{5},
				cm.DropInvalid, false},
			"partition": {func(r *mad.REQ) { r.PKey = 0x1234 }, mad.RejUnsupported, nil,
				cm.DropInvalid, false},
			"GID": {func(r *mad.REQ) { r.Primary.RemoteGID[0] ^= 1 }, mad.RejPrimaryGID, gid[:],
				cm.DropInvalid, false},
			"no GID": {func(r *mad.REQ) {
				r.Primary.RemoteGID, r.Primary.SubnetLocal = [16]byte{},
					false
			}, mad.RejPrimaryGID, gid[:], cm.DropInvalid, false},
			"no GID of the sender": {func(r *mad.REQ) {
				r.Primary.LocalGID, r.Primary.SubnetLocal = [16]byte{},
					false
			}, mad.RejPrimaryGID, gid[:], cm.DropInvalid, false},
			"LID": {func(r *mad.REQ) { r.Primary.RemoteLID = 99 }, mad.RejPrimaryLID, lid,
				cm.DropInvalid, true},
			"LID of the sender": {func(r *mad.REQ) { r.Primary.LocalLID = 0xc000 }, mad.RejPrimaryLID, lid,
				cm.DropInvalid, true},
			"alternate GID": {alternate(func(p *mad.CMPath) { p.RemoteGID = [16]byte{9} }),
				mad.RejAlternateGID, gid[:], cm.DropInvalid, false},
			"alternate LID": {alternate(func(p *mad.CMPath) { p.RemoteLID = 99 }), mad.RejAlternateLID, lid2,
				cm.DropInvalid, true},
			"alternate, permissive": {alternate(func(p *mad.CMPath) { p.LocalLID = 0xffff }), mad.RejAlternateLID,
				lid2, cm.DropInvalid, true},
			"alternate GID of 0": {alternate(func(p *mad.CMPath) {
				p.LocalGID, p.RemoteGID,
					p.SubnetLocal = [16]byte{}, gid2, false
			}), mad.RejAlternateGID, gid2[:], cm.DropInvalid, false},
		} {
			if tt.only && !ib {
				continue
			}
			before := s.x.m.Counters().Dropped[tt.drop]
			s.send(s.request(tt.edit))
			j := one[*mad.REJ](s)
			assert.Equal(t, tt.reason, j.Reason, name)
			assert.Equal(t, tt.info, append([]byte(nil), j.AdditionalInfo()...), name)
			assert.Equal(t, []any{uint32(0), s.p.id, mad.WhichREQ}, []any{j.LocalCommID, j.RemoteCommID, j.Message},
				name)
			assert.Equal(t, before+1, s.x.m.Counters().Dropped[tt.drop], name)
			assert.Zero(t, s.x.m.Counters().Conns, name)
		}
		require.NoError(t, l.Close())
	})
}

// A REQ or REP of another class version is rejected with the supported one. Other messages of that version are dropped.
func TestClassVersion(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		for _, version := range []byte{1, 3} {
			for _, m := range []mad.CMMessage{s.request(), &mad.REP{LocalCommID: 0x99}, &mad.RTU{}} {
				h := mad.CMHeader(77, m)
				h.ClassVersion = version
				b := make([]byte, mad.Size)
				h.Put(b)
				m.Put(b[mad.HeaderLen:])
				s.raw(b)
				if m.Attribute() == mad.AttrRTU {
					assert.Empty(t, s.take())
					continue
				}
				require.Len(t, s.p.got, 1)
				assert.Equal(t, mad.CMHeader(77, new(mad.REJ)), header(s.p.got[0].MAD))
				j := one[*mad.REJ](s)
				assert.Equal(t, mad.RejClassVersion, j.Reason)
				assert.Equal(t, []byte{2}, j.AdditionalInfo())
				assert.NotZero(t, j.RemoteCommID)
			}
		}
	})
}

// Datagrams that are no CM message, or of an unknown attribute, are counted.
func TestMalformed(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		m := &mad.MRA{Message: 3, LocalCommID: 1, RemoteCommID: 2}
		s.send(m)
		h := mad.CMHeader(1, m)
		for i, edit := range []func(*mad.Header){func(h *mad.Header) { h.Attribute = 0x1b },
			func(h *mad.Header) { h.Method = mad.Get },
			func(h *mad.Header) { h.BaseVersion = 2 }} {
			h := h
			edit(&h)
			b := make([]byte, mad.Size)
			h.Put(b)
			s.raw(b)
			assert.Equal(t, uint64(i+2), s.x.m.Counters().Dropped[cm.DropMalformed])
		}
		assert.Empty(t, s.take())
	})
}

// A REQ from a QP that is connected is rejected, and the connection ends: the peer has lost it.
func TestStaleQP(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterPassive(s)
		next(t, v.c, cm.EventEstablished)
		l := s.x.listen()
		s.send(s.request(func(r *mad.REQ) { r.LocalCommID += 1000 }))
		var kinds []string
		for _, m := range s.take() {
			kinds = append(kinds, cm.Kind(m))
			switch m := m.(type) {
			case *mad.REJ:
				assert.Equal(t, []any{mad.RejStaleConnection, s.p.id + 1000}, []any{m.Reason, m.RemoteCommID})
			case *mad.DREQ:
				assert.Equal(t, []uint32{v.ids.theirs, v.ids.ours, s.p.req.LocalQPN},
					[]uint32{m.RemoteCommID, m.LocalCommID, m.RemoteQPN})
			}
		}
		assert.ElementsMatch(t, []string{"REJ", "DREQ"}, kinds)
		// The peer answers the DREQ as it does for any unknown connection. Its next REQ is accepted.
		s.send(&mad.DREP{LocalCommID: v.ids.theirs, RemoteCommID: v.ids.ours})
		next(t, v.c, cm.EventDisconnected)
		s.send(s.request(func(r *mad.REQ) { r.LocalCommID += 1001 }))
		c := must(l.Accept(t.Context()))
		require.NoError(t, c.Close())
		require.NoError(t, l.Close())
		s.settle()
		s.take()
		v.end()
	})
}

// TestStaleREP is the same for a REP to our REQ, by QP and by communication ID.
func TestStaleREP(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		for _, byID := range []bool{false, true} {
			s.p.id++
			v := enterActive(s)
			failed := make(chan error, 1)
			go func() {
				_, err := s.x.m.Connect(t.Context(), s.x.requestTo(s.p.x))
				failed <- err
			}()
			s.settle()
			rep := s.reply(one[*mad.REQ](s))
			if byID {
				rep.LocalQPN++
			} else {
				rep.LocalCommID += 1000
			}
			s.send(rep)
			require.ErrorIs(t, <-failed, ci.RemoteError)
			want := cm.StateDREQSent
			if byID {
				want = cm.StateEstablished
			}
			assert.Equal(t, want, v.c.State())
			var reasons []mad.RejReason
			for _, m := range s.take() {
				if j, ok := m.(*mad.REJ); ok {
					assert.Equal(t, mad.WhichREP, j.Message)
					reasons = append(reasons, j.Reason)
				}
			}
			if byID {
				assert.Equal(t, []mad.RejReason{mad.RejDuplicateCommID}, reasons)
			} else {
				assert.Equal(t, []mad.RejReason{mad.RejStaleConnection}, reasons)
			}
			v.end()
		}
	})
}

// A request that was rejected by its sender, or that has waited too long, leaves the backlog. Accept does not return
// it.
func TestBacklogOfTheLiving(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		l := s.x.listen(func(c *cm.ListenConfig) { c.Backlog = 1 })
		s.send(s.request())
		j := &mad.REJ{LocalCommID: s.p.id, Message: mad.WhichREQ, Reason: mad.RejTimeout}
		require.NoError(t, j.SetAdditionalInfo(binary.BigEndian.AppendUint64(nil, uint64(s.p.x.hca.Info().GUID))))
		s.send(j)
		require.Equal(t, 1, s.x.m.Counters().TimeWait)
		s.p.id++
		s.send(s.request())
		require.Equal(t, uint64(0), s.x.m.Counters().Dropped[cm.DropOverload])
		for s.x.m.Counters().Dropped[cm.DropUnanswered] == 0 { // until the peer has given up
			time.Sleep(time.Second)
		}
		s.p.id++
		s.send(s.request())
		c := must(l.Accept(t.Context()))
		assert.Equal(t, s.p.id, c.RemoteID())
		assert.Equal(t, cm.StateREQRcvd, c.State())
		require.NoError(t, c.Close())
		require.NoError(t, l.Close())
		s.settle()
		s.take()
	})
}

// A REJ from a peer that gave up before it had our ID is matched by the peer's own ID.
func TestTimeoutREJ(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := s.enterREQRcvd()
		j := &mad.REJ{LocalCommID: s.p.id, Message: mad.WhichREQ, Reason: mad.RejTimeout}
		guid := uint64(s.p.x.hca.Info().GUID)
		require.NoError(t, j.SetAdditionalInfo([]byte{byte(guid >> 56), byte(guid >> 48), byte(guid >> 40),
			byte(guid >> 32), byte(guid >> 24), byte(guid >> 16), byte(guid >> 8), byte(guid)}))
		s.send(j)
		e := next(t, v.c, cm.EventRejected)
		var rej *cm.RejectError
		require.ErrorAs(t, e.Err, &rej)
		assert.Equal(t, mad.RejTimeout, rej.Reason)
		err := v.c.Accept(t.Context(), ourReply())
		require.ErrorIs(t, err, ci.InvalidState)
		require.ErrorAs(t, err, &rej, "the cause of the state")
		s.send(s.p.req)
		assert.Equal(t, mad.RejStaleConnection, one[*mad.REJ](s).Reason, "a late copy is no new request")
		next(t, v.c, cm.EventTimeWaitExit)
		_, err = v.c.Next(t.Context())
		assert.ErrorIs(t, err, cm.ErrClosed)
		v.end()
	})
}

// The number of requests is limited by the listener's backlog, by peer, and in all. Requests above the limit are
// rejected and leave no state.
func TestBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg     cm.Config
		backlog int
	}{"backlog": {cm.Config{}, 3}, "peer": {cm.Config{MaxPendingPeer: 3}, 100},
		"all": {cm.Config{MaxPending: 3}, 100}} {
		t.Run(name, func(t *testing.T) {
			inScriptOn(t, ci.LinkEthernet, tt.cfg, func(t *testing.T, s *scripted) {
				l := s.x.listen(func(c *cm.ListenConfig) { c.Backlog = tt.backlog })
				for range 10 {
					s.p.id++
					s.send(s.request())
				}
				rejected := 0
				for _, m := range s.take() {
					if j, ok := m.(*mad.REJ); ok {
						assert.Equal(t, mad.RejNoResources, j.Reason)
						rejected++
					}
				}
				assert.Equal(t, 7, rejected)
				c := s.x.m.Counters()
				assert.Equal(t, []int{3, 3, 7}, []int{c.Conns, c.Pending, int(c.Dropped[cm.DropOverload])})
				require.NoError(t, l.Close())
				s.settle()
				for _, m := range s.take() {
					assert.Equal(t, mad.RejInvalidServiceID, m.(*mad.REJ).Reason)
				}
				assert.Zero(t, s.x.m.Counters().Pending)
			})
		})
	}
}

// A flood of requests uses limited memory, and a valid request is served after it.
func TestFlood(t *testing.T) {
	inScriptOn(t, ci.LinkInfiniBand, cm.Config{MaxPending: 100, MaxTimeWait: 50}, func(t *testing.T, s *scripted) {
		l := s.x.listen(func(c *cm.ListenConfig) { c.Backlog = 1000 })
		s.net.delay = 0
		for range 20000 {
			s.p.id++
			r := s.request(func(r *mad.REQ) {
				r.LocalCAGUID, r.LocalQPN = uint64(s.p.id)*0x9e3779b9, s.p.id&0xffffff
			})
			h := mad.CMHeader(uint64(s.p.id), r)
			b := make([]byte, mad.Size)
			h.Put(b)
			r.Put(b[mad.HeaderLen:])
			s.x.m.Inject(s.x.port(1), b, s.p.x.attr(1).LID)
		}
		c := s.x.m.Counters()
		assert.Equal(t, 100, c.Pending)
		assert.Equal(t, 100, c.Conns)
		time.Sleep(time.Hour)
		s.settle()
		s.take()
		assert.Zero(t, s.x.m.Counters().Conns, "no request was accepted")
		s.p.id++
		s.send(s.request())
		c2 := must(l.Accept(t.Context()))
		require.NoError(t, c2.Close())
		require.NoError(t, l.Close())
	})
}

// A peer that does not answer the REP keeps its place for a second, and not for the hours that its REQ requested.
func TestCrowded(t *testing.T) {
	inScriptOn(t, ci.LinkEthernet, cm.Config{MaxPending: 3}, func(t *testing.T, s *scripted) {
		l := s.x.listen(func(c *cm.ListenConfig) { c.Backlog = 100 })
		request := func() {
			s.p.id++
			s.send(s.request(func(r *mad.REQ) {
				r.LocalQPN, r.LocalTimeout = s.p.id&0xffffff, mad.MaxTimeExp
				r.RemoteTimeout, r.MaxCMRetries = mad.MaxTimeExp, 15
			}))
		}
		rejected := func() (n int) {
			for _, m := range s.take() {
				if j, ok := m.(*mad.REJ); ok && j.Reason == mad.RejNoResources {
					n++
				}
			}
			return n
		}
		ended := make(chan error, 3)
		for range 3 {
			request()
			c := must(l.Accept(t.Context()))
			go func() { ended <- c.Accept(t.Context(), cm.AcceptConfig{QP: cm.QP{Num: 5}}) }()
			s.settle()
		}
		request()
		assert.Equal(t, 1, rejected(), "the peers may still answer")
		time.Sleep(time.Second) // virtual time
		for range 2 {
			request()
			assert.ErrorIs(t, <-ended, cm.ErrTimeout)
			assert.Zero(t, rejected())
			assert.Equal(t, 3, s.x.m.Counters().Pending)
		}
		require.NoError(t, l.Close())
		s.settle()
		assert.Equal(t, 1, s.x.m.Counters().Pending, "the request that was not displaced")
		require.NoError(t, s.x.m.Close())
		assert.Error(t, <-ended)
	})
}

// TestListenerCloses closes a listener. Requests that wait for Accept are rejected, and one that was accepted goes on.
func TestListenerCloses(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		l := s.x.listen()
		s.send(s.request())
		v := &situation{s: s, c: must(l.Accept(t.Context()))}
		v.ids.theirs, v.ids.ours = s.p.id, v.c.ID()
		s.p.id++
		s.send(s.request())
		require.NoError(t, l.Close())
		s.settle()
		j := one[*mad.REJ](s)
		assert.Equal(t, []any{mad.RejInvalidServiceID, s.p.id}, []any{j.Reason, j.RemoteCommID})
		_, err := l.Accept(t.Context())
		assert.ErrorIs(t, err, cm.ErrClosed)
		v.background(func(ctx context.Context) { assert.NoError(t, v.c.Accept(ctx, ourReply())) })
		one[*mad.REP](s)
		s.send(&mad.RTU{LocalCommID: v.ids.theirs, RemoteCommID: v.ids.ours})
		assert.Equal(t, cm.StateEstablished, v.c.State())
		v.end()
	})
}

// Of several listeners that match, the most specific one receives the request.
func TestListeners(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		other := s.x.attr(2).GIDs[0].GID
		configs := []cm.ListenConfig{
			{Service: 0x1000, Mask: ^mad.ServiceID(0xff)},
			{Service: 0x1000, Mask: ^mad.ServiceID(0xf)},
			{Service: service1},
			{Service: service1, PKey: 0x7fff},
			{Service: service1, Compare: []byte("ab"), Offset: 1},
			{Service: service1, Compare: []byte("xab")},
			{Service: service1, Port: s.x.port(2), GID: other},
			{Service: service1, Port: s.x.port(1), PKey: 0xffff, GID: s.x.attr(1).GIDs[0].GID},
			{Service: 0x1000, Mask: ^mad.ServiceID(0xff), Compare: []byte("xabc")},
			{Service: 0x2000, LID: 0x1234},
			{Service: service1, Datagram: true},
		}
		var ls []cm.Listener
		for _, c := range configs {
			ls = append(ls, must(s.x.m.Listen(c)))
		}
		for _, c := range configs {
			c.Backlog = 7
			_, err := s.x.m.Listen(c)
			assert.ErrorIs(t, err, ci.InvalidSetting, "%+v", c)
		}
		for _, tt := range []struct {
			edit func(*mad.REQ)
			want int
		}{
			{func(r *mad.REQ) { r.ServiceID = 0x10ff }, 0},
			{func(r *mad.REQ) { r.ServiceID = 0x100f }, 1},
			{func(r *mad.REQ) {}, 7},
			{func(r *mad.REQ) { copy(r.PrivateData[:], "yab") }, 4},
			{func(r *mad.REQ) { copy(r.PrivateData[:], "xab") }, 5},
			{func(r *mad.REQ) { copy(r.PrivateData[:], "xabc") }, 8},
			{func(r *mad.REQ) { r.Primary = s.wire(2) }, 6},
			{func(r *mad.REQ) { r.ServiceID = 0x2000 }, -1},
		} {
			s.p.id++
			s.send(s.request(tt.edit))
			if tt.want < 0 {
				assert.Equal(t, mad.RejInvalidServiceID, one[*mad.REJ](s).Reason)
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			c, err := ls[tt.want].Accept(ctx)
			cancel()
			if assert.NoError(t, err, "listener %d", tt.want) {
				require.NoError(t, c.Close())
			}
			s.settle()
			s.take()
		}
		for _, c := range []cm.ListenConfig{{Compare: make([]byte, 93)}, {Offset: -1},
			{Offset: 90, Compare: make([]byte, 3)}, {Backlog: -1}, {Port: s.x.port(0)},
			{Datagram: true, Compare: make([]byte, 217)}} {
			if c.Port.CA != 0 {
				c.Port = s.x.port(1)
				c.Port.CA = 0
			}
			_, err := s.x.m.Listen(c)
			assert.ErrorIs(t, err, ci.InvalidParameter, "%+v", c)
		}
		for _, l := range ls {
			require.NoError(t, l.Close())
			require.NoError(t, l.Close())
			_, err := l.Accept(t.Context())
			assert.ErrorIs(t, err, cm.ErrClosed)
		}
		again := must(s.x.m.Listen(configs[2]))
		require.NoError(t, again.Close())
	})
}

// A request is handed off from listener to listener. Its Conn keeps the ID that the peer may have.
func TestHandoff(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := s.enterREQRcvd()
		require.NoError(t, v.c.Delay(20, nil))
		s.settle()
		s.take()
		l := s.x.listen(func(c *cm.ListenConfig) { c.Service = 0x3000; c.Backlog = 1 })
		assert.ErrorIs(t, v.c.Handoff(0x3001), ci.NotFound)
		require.NoError(t, v.c.Handoff(0x3000))
		assert.Equal(t, cm.StateClosed, v.c.State())
		_, err := v.c.Next(t.Context())
		assert.ErrorIs(t, err, cm.ErrClosed)
		require.NoError(t, v.c.Close(), "nothing happens")
		c := must(l.Accept(t.Context()))
		assert.Equal(t, v.ids.ours, c.ID())
		assert.Equal(t, cm.StateMRAREQSent, c.State())
		assert.Equal(t, 1, s.x.m.Counters().Pending)
		s.send(s.p.req)
		one[*mad.MRA](s)
		w := &situation{s: s, c: c, ids: v.ids}
		w.background(func(ctx context.Context) { assert.NoError(t, c.Accept(ctx, ourReply())) })
		one[*mad.REP](s)
		s.send(&mad.RTU{LocalCommID: w.ids.theirs, RemoteCommID: w.ids.ours})
		assert.Equal(t, cm.StateEstablished, c.State())
		require.NoError(t, l.Close())
		w.end()
		v.end()
	})
}

// Both ends send a REQ. One connection is established, and each end has its role.
func TestPeerToPeer(t *testing.T) {
	for _, both := range []bool{false, true} { // at the same time, or one of them later
		t.Run(fmt.Sprint(both), func(t *testing.T) {
			inPair(t, func(t *testing.T, p *pair) {
				type result struct {
					c   cm.Conn
					err error
				}
				request := func(from, to *node, qpn ci.QPN) chan result {
					r := make(chan result, 1)
					go func() {
						c, err := from.m.Connect(t.Context(),
							from.requestTo(to, func(c *cm.ConnectConfig) {
								c.Peer, c.QP.Num, c.Compare = true, qpn,
									[]byte("request")
							}))
						if err == nil && c.State() == cm.StateREQRcvd {
							answer := reply()
							answer.QP.Num = qpn
							err = c.Accept(t.Context(), answer)
						} else if err == nil {
							err = c.Confirm(nil)
						}
						r <- result{c, err}
					}()
					return r
				}
				ra := request(p.a, p.b, 0x100)
				if !both {
					time.Sleep(3 * interval)
				}
				rb := request(p.b, p.a, 0x200)
				a, b := <-ra, <-rb
				require.NoError(t, a.err)
				require.NoError(t, b.err)
				assert.Equal(t, []uint32{a.c.ID(), b.c.ID()}, []uint32{b.c.RemoteID(), a.c.RemoteID()})
				assert.Equal(t, cm.StateEstablished, a.c.State())
				assert.Equal(t, cm.StateEstablished, b.c.State())
				assert.Equal(t, a.c.Request().REQ, b.c.Request().REQ)
				assert.Equal(t, 1, p.a.m.Counters().Conns)
				assert.Equal(t, 1, p.b.m.Counters().Conns)
				active := a.c
				if p.b.hca.Info().GUID > p.a.hca.Info().GUID {
					active = b.c
				}
				assert.Equal(t, active.Request().LocalCommID, active.ID(), "the request of the larger GUID becomes "+
					"the connection")
				_, attrA, err := a.c.QPAttr(ci.QPRTR)
				require.NoError(t, err)
				_, attrB, err := b.c.QPAttr(ci.QPRTR)
				require.NoError(t, err)
				assert.Equal(t, []ci.QPN{0x200, 0x100}, []ci.QPN{attrA.DestNum, attrB.DestNum})
				require.NoError(t, a.c.Close())
				require.NoError(t, b.c.Close())
			})
		})
	}
}

// The same test over a network that loses, duplicates and reorders. Late messages of the passive end's own REQ have no
// effect.
func TestPeerToPeerLossy(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			n, l := newNetwork(seed), newLink(ci.LinkInfiniBand)
			n.loss, n.double, n.reorder = 0.2, 0.3, 0.3
			nodes := [2]*node{newNode(t, n, l, 1, cm.Config{}), newNode(t, n, l, 1, cm.Config{})}
			conns := make(chan cm.Conn, 2)
			for i, x := range nodes {
				go func() {
					time.Sleep(time.Duration(seed%3) * time.Duration(i) * interval)
					c, err := x.m.Connect(t.Context(),
						x.requestTo(nodes[1-i], func(c *cm.ConnectConfig) { c.Peer, c.MaxRetries = true, 15 }))
					if assert.NoError(t, err, "seed %d", seed) {
						if c.State() == cm.StateREQRcvd {
							err = c.Accept(t.Context(), reply())
						} else {
							err = c.Confirm(nil)
						}
						assert.NoError(t, err, "seed %d", seed)
					}
					conns <- c
				}()
			}
			a, b := <-conns, <-conns
			time.Sleep(time.Minute)
			if a != nil && b != nil {
				assert.Equal(t, cm.StateEstablished, a.State(), "seed %d", seed)
				assert.Equal(t, cm.StateEstablished, b.State(), "seed %d", seed)
				assert.Equal(t, a.ID(), b.RemoteID())
			}
			for _, x := range nodes {
				assert.LessOrEqual(t, x.m.Counters().Conns, 1)
				x.close()
			}
		})
	}
}

// A peer-to-peer request without a counterpart ends like any other request. It matches only its counterpart.
func TestPeerToPeerAlone(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = p.b.m.Connect(ctx, p.b.requestTo(p.a, func(c *cm.ConnectConfig) {
				c.Peer, c.Compare = true,
					[]byte("something else")
			}))
		}()
		_, err := p.a.m.Connect(t.Context(), p.a.requestTo(p.b, func(c *cm.ConnectConfig) {
			c.Peer, c.Compare = true,
				[]byte("yet another")
		}))
		var rej *cm.RejectError
		require.ErrorAs(t, err, &rej, "the rejection is reported instead of a timeout")
		assert.Equal(t, mad.RejInvalidServiceID, rej.Reason)
		cancel()
		synctest.Wait()
	})
}

// Invalid arguments are rejected.
func TestInvalid(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		bad := map[string]func(*cm.ConnectConfig){
			"private data": func(c *cm.ConnectConfig) { c.Private = make([]byte, 93) },
			"QP type":      func(c *cm.ConnectConfig) { c.QP.Type = ci.UD },
			"QPN":          func(c *cm.ConnectConfig) { c.QP.Num = 1 << 24 },
			"PSN":          func(c *cm.ConnectConfig) { c.QP.StartPSN = 1 << 24 },
			"retries":      func(c *cm.ConnectConfig) { c.RetryCount = 8 },
			"RNR retries":  func(c *cm.ConnectConfig) { c.RNRRetry = 8 },
			"CM retries":   func(c *cm.ConnectConfig) { c.MaxRetries = 16 },
			"times":        func(c *cm.ConnectConfig) { c.ResponseTime = 32 },
			"life time":    func(c *cm.ConnectConfig) { c.Primary.LifeTime = 32 },
			"flow label":   func(c *cm.ConnectConfig) { c.Primary.AV.GRH.FlowLabel = 1 << 20 },
			"SL":           func(c *cm.ConnectConfig) { c.Primary.AV.SL = 16 },
			"rate":         func(c *cm.ConnectConfig) { c.Primary.AV.StaticRate = 64 },
			"offset":       func(c *cm.ConnectConfig) { c.Offset = 92; c.Compare = []byte{1} },
		}
		for name, edit := range bad {
			_, err := s.x.m.Connect(t.Context(), s.x.requestTo(s.p.x, edit))
			assert.ErrorIs(t, err, ci.InvalidParameter, name)
		}
		for status, edit := range map[ci.Status]func(*cm.ConnectConfig){
			ci.InvalidPort: func(c *cm.ConnectConfig) { c.Primary.Port.Num = 9 },
			ci.InvalidPKey: func(c *cm.ConnectConfig) { c.Primary.PKey = 0x1234 },
			ci.InvalidGID:  func(c *cm.ConnectConfig) { c.Primary.AV.GRH.SGIDIndex = 999 },
		} {
			_, err := s.x.m.Connect(t.Context(), s.x.requestTo(s.p.x, edit))
			assert.ErrorIs(t, err, status)
		}
		_, err := s.x.m.Connect(t.Context(), s.x.requestTo(s.p.x, func(c *cm.ConnectConfig) {
			c.Primary.AV.Global,
				c.Primary.AV.GRH.DGID = true, ci.GID{}
		}))
		assert.ErrorIs(t, err, ci.InvalidGID)
		if s.x.attr(1).Link == ci.LinkInfiniBand {
			_, err := s.x.m.Connect(t.Context(),
				s.x.requestTo(s.p.x, func(c *cm.ConnectConfig) { c.Primary.AV.DLID = 0 }))
			assert.ErrorIs(t, err, ci.InvalidLID)
		}
		_, err = s.x.m.Connect(t.Context(),
			s.x.requestTo(s.p.x, func(c *cm.ConnectConfig) { c.Alternate = &cm.Path{} }))
		assert.ErrorIs(t, err, ci.InvalidPort)
		assert.Empty(t, s.take())

		v := s.enterREQRcvd()
		for name, edit := range map[string]func(*cm.AcceptConfig){
			"private data": func(c *cm.AcceptConfig) { c.Private = make([]byte, 197) },
			"QP type":      func(c *cm.AcceptConfig) { c.QP.Type = ci.UC },
			"QPN":          func(c *cm.AcceptConfig) { c.QP.Num = 1 << 24 },
			"RNR retries":  func(c *cm.AcceptConfig) { c.RNRRetry = 8 },
		} {
			cfg := ourReply()
			edit(&cfg)
			assert.ErrorIs(t, v.c.Accept(t.Context(), cfg), ci.InvalidParameter, name)
		}
		assert.ErrorIs(t, v.c.Reject(1, make([]byte, 73), nil), ci.InvalidParameter)
		assert.ErrorIs(t, v.c.Reject(1, nil, make([]byte, 149)), ci.InvalidParameter)
		assert.ErrorIs(t, v.c.Delay(32, nil), ci.InvalidParameter)
		assert.ErrorIs(t, v.c.Delay(1, make([]byte, 223)), ci.InvalidParameter)
		assert.ErrorIs(t, v.c.Confirm(make([]byte, 225)), ci.InvalidParameter)
		_, err = v.c.Disconnect(t.Context(), make([]byte, 221))
		assert.ErrorIs(t, err, ci.InvalidParameter)
		assert.ErrorIs(t, v.c.AnswerDisconnect(make([]byte, 225)), ci.InvalidParameter)
		assert.ErrorIs(t, v.c.AnswerAlternate(0, make([]byte, 73), nil), ci.InvalidParameter)
		assert.ErrorIs(t, v.c.AnswerAlternate(0, nil, make([]byte, 149)), ci.InvalidParameter)
		_, err = v.c.LoadAlternate(t.Context(), cm.AlternateConfig{Private: make([]byte, 169)})
		assert.ErrorIs(t, err, ci.InvalidParameter)
		v.end()
		_, err = cm.New(nil, nil, cm.Config{})
		assert.ErrorIs(t, err, ci.InvalidParameter)
	})
}

// Close of a manager ends every call and informs the peers.
func TestManagerClose(t *testing.T) {
	inPairOn(t, ci.LinkEthernet, 1, cm.Config{}, func(t *testing.T, p *pair) {
		errs := make(chan error, 8)
		call := func(f func() error) { go func() { errs <- f() }() }
		l := p.b.listen()
		a, b := p.connect(l, p.a.requestTo(p.b), reply())
		next(t, b, cm.EventEstablished)
		empty := p.b.listen(func(c *cm.ListenConfig) { c.Service = 0x99 })
		call(func() error { _, err := empty.Accept(t.Context()); return err })
		call(func() error { _, err := b.Next(t.Context()); return err })
		p.net.filter = func(d *datagram) bool { return false }
		call(func() error { _, err := p.b.m.Connect(t.Context(), p.b.requestTo(p.a)); return err })
		call(func() error {
			_, err := p.b.m.Lookup(t.Context(), cm.LookupConfig{Path: p.b.path(1, p.a, 1)})
			return err
		})
		synctest.Wait()
		p.net.filter = nil
		require.NoError(t, p.b.m.Close())
		require.NoError(t, p.b.m.Close())
		for range 4 {
			assert.ErrorIs(t, <-errs, cm.ErrClosed)
		}
		next(t, a, cm.EventDisconnect)
		_, err := p.b.m.Listen(cm.ListenConfig{})
		assert.ErrorIs(t, err, cm.ErrClosed)
		_, err = p.b.m.Connect(t.Context(), p.b.requestTo(p.a))
		assert.ErrorIs(t, err, cm.ErrClosed)
		_, err = p.b.m.Lookup(t.Context(), cm.LookupConfig{Path: p.b.path(1, p.a, 1)})
		assert.ErrorIs(t, err, cm.ErrClosed)
		assert.Equal(t, cm.StateClosed, b.State())
		assert.ErrorIs(t, b.Established(), ci.InvalidState)
	})
}

// A port that is removed closes its services. New ones are opened when it is available again.
func TestPortGoes(t *testing.T) {
	inPairOn(t, ci.LinkEthernet, 1, cm.Config{}, func(t *testing.T, p *pair) {
		a, b := p.establish()
		p.a.svc.unplug(p.a.port(1))
		_, err := p.a.m.Connect(t.Context(), p.a.requestTo(p.b))
		require.ErrorIs(t, err, ci.InvalidPort)
		_, err = a.Disconnect(t.Context(), nil)
		require.ErrorIs(t, err, cm.ErrTimeout)
		assert.NotZero(t, p.a.m.Counters().Unsent)
		p.a.svc.notify(p.a.port(1), true)
		c, d := p.establish(func(c *cm.ConnectConfig) { c.QP.Num = 0x111 })
		for _, x := range []cm.Conn{a, b, c, d} {
			require.NoError(t, x.Close())
			require.NoError(t, x.Close())
		}
	})
}

// A passive end is established by the peer's first message before the RTU arrives.
func TestEstablished(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := s.enterREQRcvd()
		done := make(chan error, 1)
		go func() { done <- v.c.Accept(context.Background(), ourReply()) }()
		s.settle()
		require.NoError(t, v.c.Established())
		require.NoError(t, <-done)
		assert.Equal(t, cm.StateEstablished, v.c.State())
		require.NoError(t, v.c.Established(), "Established is allowed after the RTU")
		r := &mad.RTU{LocalCommID: v.ids.theirs, RemoteCommID: v.ids.ours}
		copy(r.PrivateData[:], "late")
		s.send(r)
		assert.Equal(t, private([]byte("late"), mad.RTUPrivateLen), next(t, v.c, cm.EventEstablished).Private)
		v.end()
	})
}

// A DREQ that overtakes the RTU establishes the connection and ends it.
func TestDREQBeforeRTU(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := s.enterREQRcvd()
		done := make(chan error, 1)
		go func() { done <- v.c.Accept(context.Background(), ourReply()) }()
		s.settle()
		s.send(v.dreq())
		require.NoError(t, <-done)
		next(t, v.c, cm.EventDisconnect)
		_, _, err := v.c.QPAttr(ci.QPRTS)
		require.NoError(t, err, "events before the DREQ are kept")
		got, err := v.c.Disconnect(t.Context(), nil)
		require.NoError(t, err, "both ends may disconnect at the same time")
		assert.Nil(t, got)
		s.settle()
		s.take()
		v.end()
	})
}

// Accept returns the peer's rejection of the REP.
func TestREPRejected(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := s.enterREQRcvd()
		done := make(chan error, 1)
		go func() { done <- v.c.Accept(context.Background(), ourReply()) }()
		s.settle()
		s.send(&mad.REJ{LocalCommID: v.ids.theirs, RemoteCommID: v.ids.ours, Message: mad.WhichREP,
			Reason: mad.RejConsumer})
		var rej *cm.RejectError
		err := <-done
		require.ErrorAs(t, err, &rej)
		assert.Equal(t, mad.WhichREP, rej.Message)
		assert.ErrorContains(t, err, "consumer reject")
		assert.Equal(t, cm.StateTimeWait, v.c.State())
		v.end()
	})
}

// An established connection ends when the peer rejects it as unknown.
func TestREJWhenEstablished(t *testing.T) {
	inScript(t, func(t *testing.T, s *scripted) {
		v := enterActive(s)
		s.send(&mad.REJ{LocalCommID: v.ids.theirs, RemoteCommID: v.ids.ours, Message: mad.WhichOther,
			Reason: mad.RejStaleConnection})
		e := next(t, v.c, cm.EventRejected)
		var rej *cm.RejectError
		require.ErrorAs(t, e.Err, &rej)
		assert.Equal(t, mad.RejStaleConnection, rej.Reason)
		next(t, v.c, cm.EventTimeWaitExit)
		v.end()
	})
}
