package cmid_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/cmrig"
	"ciddk/internal/testenv"
	"ciddk/mad"
)

// accepted is the result of the passive end of a test, which runs on a goroutine.
type accepted struct {
	id  *cmid.ID
	err error
}

// serve accepts one request.
func serve(t *testing.T, ln *cmid.Listener, setup func(*cmid.ID), cfg cmid.ConnParam) <-chan accepted {
	ctx := cmrig.Within(t)
	c := make(chan accepted, 1)
	go func() {
		id, err := ln.Accept(ctx)
		if err == nil {
			if err = id.CreateQP(cmid.QPConfig{}); err == nil {
				if setup != nil {
					setup(id)
				}
				err = id.Accept(ctx, cfg)
			}
		}
		c <- accepted{id, err}
	}()
	return c
}

// TestConnect connects by IP address: private data in both directions, a message in each, and a disconnect by either
// end.
func TestConnect(t *testing.T) {
	tests := map[string]struct {
		lan            *lan // nil: UDP
		server, client string
		listen         string
		typ            ci.QPType
		serverLeaves   bool
	}{
		"IPv4, UDP":         {server: "127.0.0.1", client: "127.0.0.2", listen: "127.0.0.1:7174"},
		"IPv4, UDP, any":    {server: "127.0.0.1", client: "127.0.0.2", listen: "0.0.0.0:7174", serverLeaves: true},
		"IPv6, UDP, itself": {server: "::1", listen: "[::1]:7174", serverLeaves: true},
		"IPv4":              {lan: newLAN(), server: "10.66.0.1", client: "10.66.0.2", listen: "10.66.0.1:7174"},
		"IPv4, any of both": {lan: newLAN(), server: "10.66.0.1", client: "10.66.0.2", listen: "[::]:7174"},
		"IPv6": {lan: newLAN(), server: "fd66::1", client: "fd66::2", listen: "[fd66::1]:7174",
			serverLeaves: true},
		"IPv6, any": {lan: newLAN(), server: "fd66::1", client: "fd66::2", listen: "[::]:7174"},
		"unreliable": {lan: newLAN(), server: "10.66.0.1", client: "10.66.0.2",
			listen: "10.66.0.1:7174", typ: ci.UC},
		"itself, unreliable": {lan: newLAN(), server: "10.66.0.1", listen: "10.66.0.1:7174", typ: ci.UC,
			serverLeaves: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.lan == nil { // over UDP
				tt.lan = &lan{Open: open}
				testenv.Addresses(t, cmrig.UDPPort, tt.server)
				if tt.client != "" {
					testenv.Addresses(t, cmrig.UDPPort, tt.client)
				}
			}
			s := tt.lan.Host(t, tt.server)
			c := s
			if tt.client != "" {
				c = tt.lan.Host(t, tt.client)
			}
			ctx := cmrig.Within(t)
			ln, err := s.M.Listen(ap(tt.listen), cmid.ListenConfig{})
			require.NoError(t, err)
			var in *cmrig.Buffer
			peer := serve(t, ln, func(id *cmid.ID) {
				assert.Equal(t, "hello", string(id.Request().Private[:5]))
				assert.Len(t, id.Request().Private, cmid.ConnectLen)
				assert.Equal(t, tt.typ, id.Request().Type)
				in = cmrig.NewBuffer(t, id, 64)
				_, err := id.QP().PostRecv([]ci.RecvWR{{ID: 1, SGL: []ci.SGE{in.R.SGE(0, 64)}}})
				assert.NoError(t, err)
			}, cmid.ConnParam{Private: []byte("welcome")})
			to := gidAddr(tt.server)
			id, err := c.M.Dial(ctx, to, cmid.DialConfig{ID: cmid.IDConfig{Type: tt.typ},
				Conn: cmid.ConnParam{Private: []byte("hello")}})
			require.NoError(t, err)
			p := <-peer
			require.NoError(t, p.err)
			assert.Equal(t, "welcome", string(id.Reply()[:7]))
			assert.Len(t, id.Reply(), cmid.AcceptLen)
			assert.Equal(t, to, id.RemoteAddr().AddrPort)
			assert.Equal(t, id.LocalAddr(), p.id.RemoteAddr())
			assert.Equal(t, to, p.id.LocalAddr().AddrPort)

			out := cmrig.NewBuffer(t, id, 64)
			copy(out.B, "a message")
			_, err = id.QP().PostSend([]ci.SendWR{{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled,
				SGL: []ci.SGE{out.R.SGE(0, 9)}}})
			require.NoError(t, err)
			wc := make([]ci.WC, 1)
			_, err = id.SendCQ().Wait(ctx, wc)
			require.NoError(t, err)
			assert.Equal(t, ci.WCSuccess, wc[0].Status)
			_, err = p.id.RecvCQ().Wait(ctx, wc)
			require.NoError(t, err)
			assert.Equal(t, ci.WCSuccess, wc[0].Status)
			assert.Equal(t, "a message", string(in.B[:9]))

			leaver, other := id, p.id
			if tt.serverLeaves {
				leaver, other = other, leaver
			}
			require.NoError(t, leaver.Disconnect(ctx))
			assert.ErrorIs(t, leaver.Err(), cmid.ErrDisconnected)
			cmrig.Await(t, other.Done(), "the end of the connection")
			assert.ErrorIs(t, other.Err(), cmid.ErrPeerDisconnected)
			for _, e := range []*cmid.ID{leaver, other} {
				attr, err := e.QP().Query()
				require.NoError(t, err)
				assert.Equal(t, ci.QPError, attr.State)
				require.NoError(t, e.Disconnect(ctx), "a second call has no effect")
				for ev := (cmid.Event{}); ev.Type != cmid.EventDisconnected; {
					ev, err = e.Next(ctx)
					require.NoError(t, err)
				}
				require.NoError(t, e.Close())
				require.NoError(t, e.Close())
			}
			require.NoError(t, ln.Close())
			require.NoError(t, ln.Close())
		})
	}
}

// TestRefused tests the errors of requests that no listener accepts.
func TestRefused(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	_, err := c.M.Dial(ctx, ap("10.66.0.1:7174"), cmid.DialConfig{})
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	r, ok := errors.AsType[*cm.RejectError](err)
	require.True(t, ok)
	assert.Equal(t, mad.RejInvalidServiceID, r.Reason)
	assert.ErrorContains(t, err, "connect rdma-tcp 10.66.0.2:")

	ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		id, err := ln.Accept(ctx)
		if err == nil {
			err = id.Reject([]byte("no, because"))
		}
		done <- err
	}()
	_, err = c.M.Dial(ctx, ap("10.66.0.1:7174"), cmid.DialConfig{})
	require.NoError(t, <-done)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	r, ok = errors.AsType[*cm.RejectError](err)
	require.True(t, ok)
	assert.Equal(t, mad.RejConsumer, r.Reason)
	assert.Equal(t, "no, because", string(r.Private[:11]))

	_, err = c.M.Dial(ctx, ap("10.66.0.1:7174"), cmid.DialConfig{ID: cmid.IDConfig{Space: cmid.UDP}})
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the listener is in another port space")
	_, ok = errors.AsType[*cm.LookupError](err)
	require.True(t, ok)
}

// pair returns a connection between two hosts. The passive end listens at 10.66.0.1:7174.
func pair(t *testing.T, cfg cmid.ConnParam) (c, s *host, active, passive *cmid.ID) {
	l := newLAN()
	s, c = l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	peer := serve(t, ln, nil, cmid.ConnParam{})
	active, err = c.M.Dial(cmrig.Within(t), ap("10.66.0.1:7174"), cmid.DialConfig{Conn: cfg})
	require.NoError(t, err)
	p := <-peer
	require.NoError(t, p.err)
	return c, s, active, p.id
}

// TestDeviceRemoved removes the HCA of a connection: the ID has the reason, the connection of the peer ends, and no
// call hangs.
func TestDeviceRemoved(t *testing.T) {
	c, _, active, passive := pair(t, cmid.ConnParam{})
	c.Pull(t, "10.66.0.2")
	cmrig.Await(t, active.Done(), "the end of the connection")
	assert.ErrorIs(t, active.Err(), cmid.ErrDeviceRemoved)
	ctx := cmrig.Within(t)
	var types []cmid.EventType
	for len(types) == 0 || types[len(types)-1] != cmid.EventDeviceRemoved {
		e, err := active.Next(ctx)
		require.NoError(t, err)
		types = append(types, e.Type)
	}
	_, err := active.PD()
	assert.ErrorIs(t, err, ci.NotFound)
	require.NoError(t, active.Close())
	require.NoError(t, passive.Close())
	_, err = c.M.Dial(ctx, ap("10.66.0.1:7174"), cmid.DialConfig{})
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	require.NoError(t, c.HCAs["10.66.0.2"].Close())
	for range 2 { // the same HCA is added, removed and added again
		c.Plug(t, "10.66.0.2")
		_, err = c.M.Dial(ctx, ap("10.66.0.1:9"), cmid.DialConfig{})
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		c.Pull(t, "10.66.0.2")
		require.NoError(t, c.HCAs["10.66.0.2"].Close())
	}
	c.Plug(t, "10.66.0.3")
	_, err = c.M.Dial(ctx, ap("10.66.0.1:9"), cmid.DialConfig{})
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the new HCA is used")
}

// TestListenHotplug tests that a listener on all addresses serves HCAs that are added later, and continues when others
// are removed.
func TestListenHotplug(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t), l.Host(t, "10.66.0.9", "fd66::9")
	_, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
	ln, err := s.M.Listen(ap("[::]:0"), cmid.ListenConfig{})
	require.NoError(t, err)
	port := ln.Addr().Port()
	require.NotZero(t, port)
	for _, a := range []string{"10.66.0.1", "fd66::1", "10.66.0.3"} {
		s.Plug(t, a)
		peer := serve(t, ln, nil, cmid.ConnParam{})
		id, err := c.M.Dial(cmrig.Within(t), netip.AddrPortFrom(netip.MustParseAddr(a), port), cmid.DialConfig{})
		require.NoError(t, err)
		p := <-peer
		require.NoError(t, p.err)
		s.Pull(t, a)
		cmrig.Await(t, p.id.Done(), "the end at the HCA that was pulled")
		require.NoError(t, id.Close())
		require.NoError(t, p.id.Close())
	}
}

// TestListeners tests that of several listeners on a port, the one for the address gets the request, then the one for
// the IP version, then the one for all.
func TestListeners(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1", "10.66.0.2", "fd66::1"), l.Host(t, "10.66.0.9", "fd66::9")
	ctx := cmrig.Within(t)
	var mu sync.Mutex
	hits := map[string]string{}
	for _, at := range []string{"10.66.0.1:7174", "[fd66::1]:7174"} {
		ln, err := s.M.Listen(ap(at), cmid.ListenConfig{})
		require.NoError(t, err)
		go func() {
			for {
				id, err := ln.Accept(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				hits[id.LocalAddr().Addr().String()] = at
				mu.Unlock()
				_ = id.Reject(nil)
				_ = id.Close()
			}
		}()
	}
	for _, at := range []string{"10.66.0.1:7174", "0.0.0.0:7174", "[::]:7174"} {
		_, err := s.M.Listen(ap(at), cmid.ListenConfig{})
		require.ErrorIs(t, err, syscall.EADDRINUSE, at)
		_, err = s.M.Listen(ap(at), cmid.ListenConfig{ID: cmid.IDConfig{ReuseAddr: true}})
		require.ErrorIs(t, err, syscall.EADDRINUSE, at)
	}
	other, err := s.M.Listen(ap("10.66.0.2:7174"), cmid.ListenConfig{})
	require.NoError(t, err, "another address")
	require.NoError(t, other.Close())
	udp, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{ID: cmid.IDConfig{Space: cmid.UDP}})
	require.NoError(t, err, "another port space")
	require.NoError(t, udp.Close())
	for _, to := range []string{"10.66.0.1", "fd66::1"} {
		_, err := c.M.Dial(ctx, gidAddr(to), cmid.DialConfig{})
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		mu.Lock()
		assert.Equal(t, gidAddr(to).String(), hits[to])
		mu.Unlock()
	}
	_, err = c.M.Dial(ctx, gidAddr("10.66.0.2"), cmid.DialConfig{})
	r, ok := errors.AsType[*cm.RejectError](err)
	require.True(t, ok)
	assert.Equal(t, mad.RejInvalidServiceID, r.Reason, "there is no listener at that address")
}

// TestOwnQP tests QPs that the caller creates and moves, at both ends.
func TestOwnQP(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	qp := func(h *host, id *cmid.ID) ci.QP {
		pd, err := id.PD()
		require.NoError(t, err)
		cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
		require.NoError(t, err)
		q, err := pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1,
			RecvSGE: 1}}, nil)
		require.NoError(t, err)
		return q
	}
	move := func(id *cmid.ID, q ci.QP, to ci.QPState, psn ci.PSN) {
		set, attr, err := id.QPAttr(to)
		require.NoError(t, err, to)
		if to == ci.QPInit {
			set |= ci.QPFieldAccess
		}
		if to == ci.QPRTR {
			attr.RQPSN = psn
		}
		require.NoError(t, q.Modify(set, attr), to)
	}
	type result struct {
		id *cmid.ID
		q  ci.QP
	}
	peer := make(chan result, 1)
	go func() {
		id, err := ln.Accept(ctx)
		if !assert.NoError(t, err) {
			return
		}
		q := qp(s, id)
		move(id, q, ci.QPInit, 0)
		move(id, q, ci.QPRTR, 77)
		assert.NoError(t, id.Accept(ctx, cmid.ConnParam{QP: &cm.QP{Num: q.Num(), StartPSN: 77}}))
		move(id, q, ci.QPRTS, 0)
		peer <- result{id, q}
	}()
	id, err := c.M.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(ctx, ap("10.66.0.1:7174")))
	require.NoError(t, id.ResolveRoute(ctx))
	q := qp(c, id)
	_, _, err = id.QPAttr(ci.QPRTR)
	require.ErrorIs(t, err, ci.InvalidState, "there is no reply yet")
	require.ErrorIs(t, id.Connect(ctx, cmid.ConnParam{}), ci.InvalidState, "there is no QP")
	require.ErrorIs(t, id.Establish(), ci.InvalidState)
	require.NoError(t, id.Connect(ctx, cmid.ConnParam{QP: &cm.QP{Num: q.Num(), StartPSN: 99}}))
	move(id, q, ci.QPInit, 0)
	move(id, q, ci.QPRTR, 99)
	move(id, q, ci.QPRTS, 0)
	require.NoError(t, id.Establish())
	p := <-peer
	for _, x := range []result{{id, q}, p} {
		attr, err := x.q.Query()
		require.NoError(t, err)
		assert.Equal(t, ci.QPRTS, attr.State)
	}
	a, err := q.Query()
	require.NoError(t, err)
	b, err := p.q.Query()
	require.NoError(t, err)
	assert.Equal(t, []ci.PSN{77, 99}, []ci.PSN{a.SQPSN, b.SQPSN})

	gone := make(chan error, 1)
	go func() { gone <- id.Disconnect(ctx) }()
	cmrig.Await(t, p.id.Done(), "the end")
	b, err = p.q.Query()
	require.NoError(t, err)
	assert.Equal(t, ci.QPRTS, b.State, "the QP is the caller's")
	require.NoError(t, p.id.Disconnect(ctx), "the answer")
	require.NoError(t, <-gone)
}

// TestDatagram finds a QP by SIDR, with private data in both directions and a Q_Key of the server's choice.
func TestDatagram(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "fd66::1"), l.Host(t, "fd66::2")
	ctx := cmrig.Within(t)
	udp := cmid.IDConfig{Space: cmid.UDP}
	ln, err := s.M.Listen(ap("[fd66::1]:7174"), cmid.ListenConfig{ID: udp})
	require.NoError(t, err)
	var in *cmrig.Buffer
	peer := serve(t, ln, func(id *cmid.ID) {
		assert.Equal(t, "who", string(id.Request().Private[:3]))
		assert.Len(t, id.Request().Private, cmid.LookupLen)
		assert.Equal(t, ci.UD, id.Request().Type)
		in = cmrig.NewBuffer(t, id, 128)
		testenv.Must(id.QP().PostRecv([]ci.RecvWR{{SGL: []ci.SGE{in.R.SGE(0, 128)}}}))
	}, cmid.ConnParam{Private: []byte("me"), QKey: 0x1234})
	id, err := c.M.Dial(ctx, ap("[fd66::1]:7174"),
		cmid.DialConfig{ID: udp, Conn: cmid.ConnParam{Private: []byte("who")}})
	require.NoError(t, err)
	p := <-peer
	require.NoError(t, p.err)
	assert.Equal(t, "me", string(id.Reply()[:2]))
	assert.Len(t, id.Reply(), cmid.AnswerLen)
	assert.Equal(t, p.id.QP().Num(), id.Peer().QPN)
	assert.Equal(t, ci.QKey(0x1234), id.Peer().QKey)
	assert.Equal(t, "[fd66::2]:"+strconv.Itoa(int(id.LocalAddr().Port())), p.id.RemoteAddr().String())
	pd, err := id.PD()
	require.NoError(t, err)
	av, err := pd.NewAV(id.Peer().AV)
	require.NoError(t, err)
	out := cmrig.NewBuffer(t, id, 16)
	copy(out.B, "datagram")
	testenv.Must(id.QP().PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{out.R.SGE(0, 8)},
		To: ci.Dest{AV: av, QPN: id.Peer().QPN, QKey: id.Peer().QKey}}}))
	wc := make([]ci.WC, 1)
	testenv.Must(p.id.RecvCQ().Wait(ctx, wc))
	assert.Equal(t, ci.WCSuccess, wc[0].Status)
	assert.Equal(t, "datagram", string(in.B[40:48]))
	assert.NoError(t, id.Disconnect(ctx), "there is nothing to end")

	done := make(chan error, 1)
	go func() {
		id, err := ln.Accept(ctx)
		if err == nil {
			err = id.Reject([]byte("not you"))
		}
		done <- err
	}()
	_, err = c.M.Dial(ctx, ap("[fd66::1]:7174"), cmid.DialConfig{ID: udp})
	require.NoError(t, <-done)
	r, ok := errors.AsType[*cm.LookupError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, mad.SIDRRejected, r.Status)
	assert.Equal(t, "not you", string(r.Private[:7]))
}

// TestGroup tests that members of a group receive what one of them sends, and a member that has left does not.
func TestGroup(t *testing.T) {
	for _, ip := range []struct{ net, group string }{{"10.66.0.", "239.1.2.3"}, {"fd66::", "ff15::1"}} {
		t.Run(ip.group, func(t *testing.T) {
			l := newLAN()
			ctx := cmrig.Within(t)
			var ids []*cmid.ID
			var groups []*cmid.Group
			var bufs []*cmrig.Buffer
			for i := range 3 {
				h := l.Host(t, ip.net+strconv.Itoa(i+1))
				id, err := h.M.NewID(cmid.IDConfig{Space: cmid.UDP})
				require.NoError(t, err)
				_, err = id.Join(ctx, netip.MustParseAddr(ip.group), cmid.JoinConfig{})
				require.ErrorIs(t, err, ci.InvalidState, "the ID has no port yet")
				require.NoError(t, id.Bind(netip.AddrPortFrom(netip.MustParseAddr(ip.net+strconv.Itoa(i+1)), 0)))
				_, err = id.Join(ctx, netip.MustParseAddr(ip.group), cmid.JoinConfig{})
				require.ErrorIs(t, err, ci.InvalidState, "the ID has no QP yet")
				require.NoError(t, id.CreateQP(cmid.QPConfig{}))
				_, err = id.Join(ctx, netip.MustParseAddr(ip.net+"9"), cmid.JoinConfig{})
				require.ErrorIs(t, err, ci.InvalidGID)
				b := cmrig.NewBuffer(t, id, 128)
				testenv.Must(id.QP().PostRecv([]ci.RecvWR{{SGL: []ci.SGE{b.R.SGE(0, 64)}},
					{SGL: []ci.SGE{b.R.SGE(64, 64)}}}))
				g, err := id.Join(ctx, netip.MustParseAddr(ip.group), cmid.JoinConfig{SendOnly: i == 0})
				require.NoError(t, err)
				assert.Equal(t, ip.group, g.Addr().String())
				ids, groups, bufs = append(ids, id), append(groups, g), append(bufs, b)
			}
			pd, err := ids[0].PD()
			require.NoError(t, err)
			av, err := pd.NewAV(groups[0].Peer().AV)
			require.NoError(t, err)
			send := func(text string) {
				copy(bufs[0].B, text)
				testenv.Must(ids[0].QP().PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled,
					SGL: []ci.SGE{bufs[0].R.SGE(0, 5)},
					To:  ci.Dest{AV: av, QPN: cmid.McastQPN, QKey: groups[0].Peer().QKey}}}))
				wc := make([]ci.WC, 1)
				testenv.Must(ids[0].SendCQ().Wait(ctx, wc))
				require.Equal(t, ci.WCSuccess, wc[0].Status)
			}
			send("first")
			wc := make([]ci.WC, 1)
			for i := 1; i < 3; i++ {
				testenv.Must(ids[i].RecvCQ().Wait(ctx, wc))
				assert.Equal(t, "first", string(bufs[i].B[40:45]))
			}
			require.NoError(t, groups[1].Leave(ctx))
			require.NoError(t, groups[1].Leave(ctx))
			send("again")
			testenv.Must(ids[2].RecvCQ().Wait(ctx, wc))
			assert.Equal(t, "again", string(bufs[2].B[104:109]))
			n, err := ids[1].RecvCQ().Poll(wc)
			require.NoError(t, err)
			assert.Zero(t, n, "the ID has left the group")
			n, err = ids[0].RecvCQ().Poll(wc)
			require.NoError(t, err)
			assert.Zero(t, n, "the ID joined with SendOnly")
		})
	}
}

// TestMany connects many IDs at once, in both directions between two hosts, and disconnects them; all ports are
// released.
func TestMany(t *testing.T) {
	l := newLAN()
	a, b := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	const n = 40
	var wg sync.WaitGroup
	for _, x := range []struct {
		from, to *host
		at       string
	}{{a, b, "10.66.0.2:7174"}, {b, a, "10.66.0.1:7174"}} {
		ln, err := x.to.M.Listen(ap(x.at), cmid.ListenConfig{Backlog: n})
		require.NoError(t, err)
		for range n {
			wg.Go(func() {
				id, err := ln.Accept(ctx)
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, id.CreateQP(cmid.QPConfig{}))
				assert.NoError(t, id.Accept(ctx, cmid.ConnParam{}))
				cmrig.Await(t, id.Done(), "the client's disconnect")
				assert.ErrorIs(t, id.Err(), cmid.ErrPeerDisconnected)
				assert.NoError(t, id.Close())
			})
			wg.Go(func() {
				id, err := x.from.M.Dial(ctx, ap(x.at), cmid.DialConfig{})
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, id.Disconnect(ctx))
				assert.NoError(t, id.Close())
			})
		}
	}
	wg.Wait()
}

// TestDisconnectBoth has both ends disconnect at the same time.
func TestDisconnectBoth(t *testing.T) {
	_, _, active, passive := pair(t, cmid.ConnParam{})
	ctx := cmrig.Within(t)
	var wg sync.WaitGroup
	for _, id := range []*cmid.ID{active, passive} {
		wg.Go(func() { assert.NoError(t, id.Disconnect(ctx)) })
	}
	wg.Wait()
	for _, id := range []*cmid.ID{active, passive} {
		assert.Error(t, id.Err())
		require.NoError(t, id.Close())
	}
}

// TestTerms tests that parameters are reduced to the limits of the other end, and that values above those of the HCA
// are rejected.
func TestTerms(t *testing.T) {
	_, _, active, passive := pair(t, cmid.ConnParam{ResponderResources: 3, InitiatorDepth: 5, Retries: 4,
		RNRRetries: -1})
	r := passive.Request()
	assert.Equal(t, []uint8{3, 5, 4, 0}, []uint8{r.ResponderResources, r.InitiatorDepth, r.Retries, r.RNRRetries})
	assert.False(t, r.FlowControl)
	a, err := active.QP().Query()
	require.NoError(t, err)
	p, err := passive.QP().Query()
	require.NoError(t, err)
	assert.Equal(t, []uint8{3, 5}, []uint8{a.RespRes, a.InitDepth})
	assert.Equal(t, []uint8{5, 3}, []uint8{p.RespRes, p.InitDepth})
	assert.Equal(t, []uint8{4, 4}, []uint8{a.RetryCount, p.RetryCount})
	assert.Equal(t, []uint8{7, 0}, []uint8{a.RNRRetry, p.RNRRetry}, "each end uses the value of the other end")
	assert.Equal(t, a.SQPSN, p.RQPSN)
	assert.NotZero(t, a.Primary.AV.GRH.FlowLabel)
	assert.Equal(t, a.Primary.AV.GRH.FlowLabel, p.Primary.AV.GRH.FlowLabel, "both ends send from the same UDP port")
}

// TestStates tests that errors of calls in a wrong state name the state, and that closing ends calls that wait.
func TestStates(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	for _, cfg := range []cmid.IDConfig{{Space: cmid.TCP, Type: ci.UD}, {Space: cmid.UDP, Type: ci.UC},
		{Space: 7}, {Type: ci.RawEther}, {Space: cmid.TCP, Service: 1}} {
		_, err := c.M.NewID(cfg)
		assert.ErrorIs(t, err, ci.InvalidParameter, "%+v", cfg)
	}
	id, err := c.M.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	assert.ErrorIs(t, id.ResolveRoute(ctx), ci.InvalidState)
	assert.ErrorContains(t, id.ResolveRoute(ctx), "new")
	assert.ErrorIs(t, id.Connect(ctx, cmid.ConnParam{}), ci.InvalidState)
	assert.ErrorIs(t, id.CreateQP(cmid.QPConfig{}), ci.InvalidState)
	assert.ErrorIs(t, id.Accept(ctx, cmid.ConnParam{}), ci.InvalidState)
	assert.ErrorIs(t, id.Reject(nil), ci.InvalidState)
	assert.ErrorIs(t, id.Delay(), ci.InvalidState)
	assert.ErrorIs(t, id.Notify(), ci.InvalidState)
	assert.ErrorIs(t, id.Disconnect(ctx), ci.InvalidState)
	require.NoError(t, id.Bind(ap("10.66.0.2:0")))
	assert.ErrorIs(t, id.Bind(ap("10.66.0.2:0")), ci.InvalidState)
	require.NoError(t, id.CreateQP(cmid.QPConfig{}), "the port is resolved")
	assert.ErrorIs(t, id.CreateQP(cmid.QPConfig{}), ci.InvalidState)
	require.NoError(t, id.ResolveAddr(ctx, ap("10.66.0.1:7174")))
	require.NoError(t, id.ResolveRoute(ctx))
	assert.ErrorIs(t, id.Connect(ctx, cmid.ConnParam{Private: make([]byte, cmid.ConnectLen+1)}),
		ci.InvalidParameter)
	assert.ErrorIs(t, id.Connect(ctx, cmid.ConnParam{Retries: 8}), ci.InvalidParameter)
	assert.ErrorIs(t, id.Connect(ctx, cmid.ConnParam{ResponderResources: 1 << 20}), ci.InvalidParameter)
	assert.NoError(t, id.Err())

	ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	asked := make(chan error, 1)
	go func() { asked <- id.Connect(ctx, cmid.ConnParam{}) }()
	req, err := ln.Accept(ctx)
	require.NoError(t, err)
	require.NoError(t, req.Delay(), "the accept is delayed")
	require.NoError(t, id.Close())
	require.ErrorIs(t, <-asked, net.ErrClosed)
	assert.ErrorIs(t, id.Err(), net.ErrClosed)
	assert.ErrorIs(t, id.Connect(ctx, cmid.ConnParam{}), net.ErrClosed)
	for err = nil; err == nil; { // there may be an event of the peer's Delay
		_, err = id.Next(ctx)
	}
	assert.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, req.CreateQP(cmid.QPConfig{}))
	require.Error(t, req.Accept(ctx, cmid.ConnParam{}), "the peer is closed")

	canceled, cancel := context.WithCancel(ctx)
	go func() { _, err := ln.Accept(canceled); asked <- err }()
	cancel()
	require.ErrorIs(t, <-asked, context.Canceled)
	go func() { _, err := ln.Accept(ctx); asked <- err }()
	require.NoError(t, s.M.Close())
	require.ErrorIs(t, <-asked, net.ErrClosed)
	_, err = s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.ErrorIs(t, err, net.ErrClosed)
	_, _, err = s.M.Device(s.HCAs["10.66.0.1"].Info().GUID)
	require.ErrorIs(t, err, net.ErrClosed)
}

// gidAddr returns the port of rping at an address.
func gidAddr(a string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), 7174) }
