package cmid_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/cmrig"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// stand is a Manager with a fake connection manager, and one HCA at 10.66.0.1.
type stand struct {
	f    *fakeCM
	al   *accesslayer.AL
	m    *cmid.Manager
	port ci.PortAttr
	guid ci.GUID
}

func newStand(t *testing.T) *stand {
	al := accesslayer.New(accesslayer.Config{})
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{
		testenv.Must(sim.New(newLAN().Network, sim.Config{Addr: netip.MustParseAddr("10.66.0.1")}))}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, errors.Join(al.Close(), hca.Close())) })
	require.NoError(t, al.Register(hca))
	client, err := al.Open(accesslayer.ClientConfig{})
	require.NoError(t, err)
	s := &stand{f: &fakeCM{conns: make(chan cm.Conn, 8), lookups: make(chan cm.LookupRequest, 8)}, al: al,
		guid: hca.Info().GUID}
	s.port = al.Adapters()[0].Attr().Ports[0]
	s.m, err = cmid.New(client, cmid.Config{CM: s.f})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.m.Close()) })
	return s
}

// attr returns attributes that connect a QP to 10.66.0.2.
func (s *stand) attr(to ci.QPState) (ci.QPField, ci.QPAttr, error) {
	av := ci.AVAttr{Port: 1, Global: true,
		GRH: ci.GRH{DGID: netip.MustParseAddr("::ffff:10.66.0.2").As16(), HopLimit: 64}}
	a := ci.QPAttr{State: to, Port: 1, Primary: ci.Path{AV: av, AckTimeout: 14}, MTU: ci.MTU1024, DestNum: 77}
	switch to {
	case ci.QPRTR:
		return ci.QPFieldsRTR, a, nil
	case ci.QPRTS:
		return ci.QPFieldsRTS, a, nil
	}
	return 0, a, errors.New("only RTR and RTS are expected")
}

// TestConnectErrors tests that results of the connection manager become errors that users of package net expect.
func TestConnectErrors(t *testing.T) {
	s := newStand(t)
	ctx := cmrig.Within(t)
	var answer error
	s.f.connect = func(context.Context, cm.ConnectConfig) (cm.Conn, error) { return nil, answer }
	s.f.lookup = func(context.Context, cm.LookupConfig) (*cm.LookupReply, error) { return nil, answer }
	tests := map[string]struct {
		err     error
		is      error
		timeout bool
	}{
		"no reply":         {err: cm.ErrTimeout, is: cm.ErrTimeout, timeout: true},
		"no listener":      {err: &cm.RejectError{Reason: mad.RejInvalidServiceID}, is: syscall.ECONNREFUSED},
		"the consumer":     {err: &cm.RejectError{Reason: mad.RejConsumer}, is: syscall.ECONNREFUSED},
		"another reason":   {err: &cm.RejectError{Reason: mad.RejInvalidMTU}},
		"SIDR":             {err: &cm.LookupError{Status: mad.SIDRNoQP}, is: syscall.ECONNREFUSED},
		"the context ends": {err: context.DeadlineExceeded, is: context.DeadlineExceeded, timeout: true},
	}
	for name, tt := range tests {
		for _, space := range []mad.PortSpace{cmid.TCP, cmid.UDP} {
			t.Run(name+"/"+space.String(), func(t *testing.T) {
				answer = tt.err
				_, err := s.m.Dial(ctx, ap("10.66.0.2:1"), cmid.DialConfig{ID: cmid.IDConfig{Space: space}})
				require.ErrorIs(t, err, tt.err)
				if tt.is != nil {
					require.ErrorIs(t, err, tt.is)
				} else {
					require.NotErrorIs(t, err, syscall.ECONNREFUSED)
				}
				op, ok := errors.AsType[*net.OpError](err)
				require.True(t, ok)
				assert.Equal(t, tt.timeout, op.Timeout())
				assert.Equal(t, "connect", op.Op)
				assert.Equal(t, "10.66.0.2:1", op.Addr.String())
			})
		}
	}
}

// TestConnectAgain tests that an ID may connect again after a rejection, with its QP still in Init. A failure after the
// reply ends the connection, and the peer is informed.
func TestConnectAgain(t *testing.T) {
	s := newStand(t)
	ctx := cmrig.Within(t)
	id, err := s.m.NewID(cmid.IDConfig{TrafficClass: 0x20})
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(ctx, ap("10.66.0.2:1")))
	require.NoError(t, id.ResolveRoute(ctx))
	require.NoError(t, id.CreateQP(cmid.QPConfig{}))
	c := &fakeConn{rep: &mad.REP{}, state: cm.StateREPRcvd}
	var cfg cm.ConnectConfig
	n := 0
	s.f.connect = func(_ context.Context, x cm.ConnectConfig) (cm.Conn, error) {
		if n++; n == 1 {
			return nil, &cm.RejectError{Reason: mad.RejConsumer}
		}
		cfg = x
		return c, nil
	}
	require.ErrorIs(t, id.Connect(ctx, cmid.ConnParam{}), syscall.ECONNREFUSED)
	c.attr = func(ci.QPState) (ci.QPField, ci.QPAttr, error) { return 0, ci.QPAttr{}, ci.InvalidPKey }
	require.ErrorIs(t, id.Connect(ctx, cmid.ConnParam{}), ci.InvalidPKey)
	assert.Equal(t, []string{"reject", "close"}, c.noted())
	assert.Equal(t, []mad.RejReason{mad.RejNoResources}, c.reasons)
	assert.Nil(t, id.Conn())
	c.attr, c.calls, c.confirm = s.attr, nil, nil
	require.NoError(t, id.Connect(ctx, cmid.ConnParam{}))
	assert.Equal(t, []string{"confirm"}, c.noted())

	assert.Equal(t, cmid.TCP.ServiceID(1), cfg.Service)
	assert.Equal(t, id.QP().Num(), cfg.QP.Num)
	assert.NotZero(t, cfg.QP.StartPSN)
	assert.Equal(t, []uint8{7, 7, 16, 16}, []uint8{cfg.RetryCount, cfg.RNRRetry, cfg.ResponderResources,
		cfg.InitiatorDepth})
	assert.False(t, cfg.FlowControl, "it is not announced by default")
	assert.Equal(t, uint8(0x20), cfg.Primary.AV.GRH.TrafficClass)
	h, rest, err := mad.ParseIPCM(append(cfg.Private, make([]byte, cmid.ConnectLen)...))
	require.NoError(t, err)
	require.NoError(t, h.Check())
	assert.Len(t, rest, cmid.ConnectLen)
	assert.Equal(t, id.LocalAddr().AddrPort, h.SourceAddr())

	// Events that no call requested. Of those that a peer can repeat, only the last one is queued.
	for i := range byte(100) {
		cfg.OnEvent(c, cm.Event{Type: cm.EventDelayed, Private: []byte{i}})
		cfg.OnEvent(c, cm.Event{Type: cm.EventAlternate, Private: []byte{i}, LAP: &mad.LAP{}})
	}
	gone := &cm.RejectError{Reason: mad.RejStaleConnection}
	cfg.OnEvent(c, cm.Event{Type: cm.EventRejected, Err: gone})
	cmrig.Await(t, id.Done(), "the end")
	assert.ErrorIs(t, id.Err(), gone)
	cfg.OnEvent(c, cm.Event{Type: cm.EventTimeWaitExit})
	for _, want := range []cmid.EventType{cmid.EventDelayed, cmid.EventAlternate, cmid.EventRejected,
		cmid.EventTimeWaitExit} {
		e, err := id.Next(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, e.Type, "%v", e.Type)
		assert.Equal(t, want == cmid.EventAlternate, e.CM != nil)
		if want == cmid.EventDelayed || want == cmid.EventAlternate {
			assert.Equal(t, []byte{99}, e.Private, "the last event of its type")
		}
	}
	attr, err := id.QP().Query()
	require.NoError(t, err)
	assert.Equal(t, ci.QPError, attr.State)
}

// TestDisconnectUnanswered tests a peer that does not reply to a disconnect: the connection is over, and the error is a
// timeout.
func TestDisconnectUnanswered(t *testing.T) {
	s := newStand(t)
	ctx := cmrig.Within(t)
	c := &fakeConn{rep: &mad.REP{}, state: cm.StateEstablished, attr: s.attr}
	s.f.connect = func(context.Context, cm.ConnectConfig) (cm.Conn, error) { return c, nil }
	id, err := s.m.Dial(ctx, ap("10.66.0.2:1"), cmid.DialConfig{})
	require.NoError(t, err)
	err = id.Disconnect(ctx)
	require.ErrorIs(t, err, cm.ErrTimeout)
	assert.ErrorIs(t, id.Err(), cmid.ErrDisconnected)
	require.NoError(t, id.Disconnect(ctx))
	require.NoError(t, id.Notify(), "the first message arrived late")
	assert.Equal(t, []string{"confirm", "disconnect", "established"}, c.noted())
}

// TestBadRequests tests that requests with an invalid IP header are rejected, each with its reason, and that the
// listener continues.
func TestBadRequests(t *testing.T) {
	s := newStand(t)
	ctx := cmrig.Within(t)
	here, there := netip.MustParseAddr("10.66.0.1"), netip.MustParseAddr("10.66.0.2")
	header := func(edit func(*mad.IPCM)) []byte {
		h, err := mad.NewIPCM(netip.AddrPortFrom(there, 5), here)
		require.NoError(t, err)
		if edit != nil {
			edit(&h)
		}
		b := make([]byte, mad.IPCMLen)
		h.Put(b)
		return b
	}
	_, back, err := s.attr(ci.QPRTR)
	require.NoError(t, err)
	path := cm.Path{AV: back.Primary.AV}
	path.Port.CA, path.Port.Num = s.guid, 1
	request := func(private []byte, service mad.TransportService) *fakeConn {
		r := &cm.Request{REQ: mad.REQ{Service: service, LocalQPN: 9}, Primary: path,
			From: mads.Address{AV: ci.AVAttr{Global: true, GRH: ci.GRH{DGID: there.As16()}}}}
		r.REQ.Primary.LocalGID, r.REQ.Primary.RemoteGID = there.As16(), here.As16()
		copy(r.PrivateData[:], private)
		return &fakeConn{req: r, state: cm.StateREQRcvd, attr: s.attr}
	}
	tests := map[string]struct {
		private []byte
		service mad.TransportService
		reason  mad.RejReason
	}{
		"major version": {private: header(func(h *mad.IPCM) { h.MajorVersion = 1 }), reason: mad.RejUnsupported},
		"IP version":    {private: header(func(h *mad.IPCM) { h.IPVersion = 5 }), reason: mad.RejUnsupported},
		"no header":     {reason: mad.RejUnsupported},
		"to another host": {private: header(func(h *mad.IPCM) { h.Destination[15] = 9 }),
			reason: mad.RejInvalidServiceID},
		"from another host": {private: header(func(h *mad.IPCM) { h.Source[15] = 9 }), reason: mad.RejInvalidServiceID},
		"reliable datagram": {private: header(nil), service: mad.ServiceRD, reason: mad.RejInvalidTransport},
		"of an unknown HCA": {private: header(nil), reason: mad.RejNoResources},
		"of another port":   {private: header(nil), reason: mad.RejPrimaryGID},
	}
	ln, err := s.m.Listen(ap("10.66.0.1:7"), cmid.ListenConfig{})
	require.NoError(t, err)
	udp, err := s.m.Listen(ap("10.66.0.1:7"), cmid.ListenConfig{ID: cmid.IDConfig{Space: cmid.UDP}})
	require.NoError(t, err)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bad, good := request(tt.private, tt.service), request(header(nil), mad.ServiceUC)
			switch tt.reason {
			case mad.RejNoResources:
				bad.req.Primary.Port.CA++
			case mad.RejPrimaryGID:
				bad.req.From.AV.GRH.DGID[15] = 9
			}
			s.f.conns <- bad
			s.f.conns <- good
			id, err := ln.Accept(ctx)
			require.NoError(t, err)
			assert.Same(t, good, id.Conn())
			assert.Equal(t, []mad.RejReason{tt.reason}, bad.reasons)
			assert.Equal(t, "10.66.0.2:5", id.RemoteAddr().String())
			assert.Equal(t, ci.UC, id.Request().Type)
			assert.Equal(t, ci.QPN(9), id.Request().QPN)
			require.NoError(t, id.Close())
			assert.Equal(t, []string{"close"}, good.noted(), "Close rejects the request")

			if tt.service != 0 || tt.reason == mad.RejPrimaryGID { // a request for datagrams contains no GID
				return
			}
			l := &fakeLookup{req: &mad.SIDRREQ{}, path: bad.req.Primary, status: make(chan mad.SIDRStatus, 1)}
			copy(l.req.PrivateData[:], tt.private)
			ok := &fakeLookup{req: &mad.SIDRREQ{}, path: path, status: make(chan mad.SIDRStatus, 1)}
			copy(ok.req.PrivateData[:], header(nil))
			s.f.lookups <- l
			s.f.lookups <- ok
			id, err = udp.Accept(ctx)
			require.NoError(t, err)
			want := mad.SIDRRejected
			if tt.reason == mad.RejInvalidServiceID {
				want = mad.SIDRUnsupportedService
			}
			assert.Equal(t, want, <-l.status)
			require.NoError(t, id.Close())
			assert.Equal(t, mad.SIDRNoQP, <-ok.status)
		})
	}
}

// TestListenElsewhere tests a port that another user of the CM service has.
func TestListenElsewhere(t *testing.T) {
	s := newStand(t)
	s.f.listen = func(cm.ListenConfig) error { return ci.InvalidSetting }
	_, err := s.m.Listen(ap("10.66.0.1:7"), cmid.ListenConfig{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	s.f.listen = nil
	ln, err := s.m.Listen(ap("10.66.0.1:7"), cmid.ListenConfig{})
	require.NoError(t, err, "the failed Listen has left nothing")
	require.NoError(t, ln.Close())
}

// TestAcceptErrors tests what Accept requires, and the state of the QP when the peer rejects the reply.
func TestAcceptErrors(t *testing.T) {
	s := newStand(t)
	ctx := cmrig.Within(t)
	h, err := mad.NewIPCM(ap("10.66.0.2:5"), netip.MustParseAddr("10.66.0.1"))
	require.NoError(t, err)
	_, back, err := s.attr(ci.QPRTR)
	require.NoError(t, err)
	r := &cm.Request{REQ: mad.REQ{ResponderRes: 2, InitiatorDepth: 3}, Primary: cm.Path{AV: back.Primary.AV}}
	r.Primary.Port.CA, r.Primary.Port.Num = s.guid, 1
	r.REQ.Primary.LocalGID, r.REQ.Primary.RemoteGID = netip.MustParseAddr("10.66.0.2").As16(),
		netip.MustParseAddr("10.66.0.1").As16()
	h.Put(r.PrivateData[:])
	c := &fakeConn{req: r, attr: s.attr}
	s.f.conns <- c
	ln, err := s.m.Listen(ap("10.66.0.1:7"), cmid.ListenConfig{})
	require.NoError(t, err)
	id, err := ln.Accept(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, id.Accept(ctx, cmid.ConnParam{}), ci.InvalidState, "no QP")
	require.NoError(t, id.CreateQP(cmid.QPConfig{}))
	require.ErrorIs(t, id.Accept(ctx, cmid.ConnParam{QP: &cm.QP{}}), ci.InvalidParameter, "two QPs")
	require.ErrorIs(t, id.Accept(ctx, cmid.ConnParam{Private: make([]byte, cmid.AcceptLen+1)}), ci.InvalidParameter)
	require.ErrorIs(t, id.Reject(make([]byte, cmid.RejectLen+1)), ci.InvalidParameter)
	var got cm.AcceptConfig
	c.accept = func(_ context.Context, a cm.AcceptConfig) error {
		got = a
		return &cm.RejectError{Reason: mad.RejTimeout}
	}
	err = id.Accept(ctx, cmid.ConnParam{Private: []byte("yes")})
	rej, ok := errors.AsType[*cm.RejectError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, mad.RejTimeout, rej.Reason)
	assert.Equal(t, []uint8{3, 2}, []uint8{got.ResponderResources, got.InitiatorDepth}, "at most what the peer offers")
	assert.Equal(t, "yes", string(got.Private))
	attr, err := id.QP().Query()
	require.NoError(t, err)
	assert.Equal(t, got.QP.StartPSN, attr.RQPSN)
	assert.Equal(t, ci.QPRTR, attr.State)
}
