package cm_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/mad"
	"ciddk/rvt"
)

// peer is a scripted peer without a manager: the test sends its messages and checks those that it receives.
type peer struct {
	t     *testing.T
	x     *node // without a manager
	agent mads.Agent
	got   []*mads.Received
	mu    sync.Mutex // of got
	id    uint32     // its communication ID
	tid   uint64
	req   *mad.REQ // the last REQ
}

// scripted is a node with a manager, and a scripted peer.
type scripted struct {
	t   *testing.T
	net *network
	x   *node
	p   *peer
}

const peerID, ourQPN = 0x77000001, 0x200

// inScript runs a test of one manager and a scripted peer on both link layers.
func inScript(t *testing.T, f func(t *testing.T, s *scripted)) {
	t.Run("InfiniBand", func(t *testing.T) { inScriptOn(t, ci.LinkInfiniBand, cm.Config{}, f) })
	t.Run("Ethernet", func(t *testing.T) { inScriptOn(t, ci.LinkEthernet, cm.Config{}, f) })
}

func inScriptOn(t *testing.T, typ ci.Link, cfg cm.Config, f func(t *testing.T, s *scripted)) {
	synctest.Test(t, func(t *testing.T) {
		n, l := newNetwork(1), newLink(typ)
		s := &scripted{t: t, net: n, x: newNode(t, n, l, 2, cfg)}
		y := &node{t: t, al: accesslayer.New(accesslayer.Config{PollInterval: -1}),
			hca: must(reference.New(reference.Config{Ports: []rvt.Port{l.port(), l.port()}}))}
		require.NoError(t, y.al.Register(y.hca))
		y.svc = &service{net: n, al: y.al}
		s.p = &peer{t: t, x: y, id: peerID, tid: 0xabcd}
		s.p.agent = must(y.svc.Register(mads.AgentConfig{Port: y.port(1), Class: mad.ClassCM, Version: 2,
			OnReceive: s.p.receive}))
		must(y.svc.Register(mads.AgentConfig{Port: y.port(2), Class: mad.ClassCM, Version: 2, OnReceive: s.p.receive}))
		f(t, s)
		time.Sleep(4 * time.Hour)
		for table, n := range cm.Tables(s.x.m) {
			require.Zero(t, n, "%s: entries are left", table)
		}
		s.x.close()
		require.NoError(t, y.al.Close())
		require.NoError(t, y.hca.Close())
	})
}

func (p *peer) receive(r *mads.Received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, r)
}

// send sends a message and waits until its consequences have been delivered.
func (s *scripted) send(m mad.CMMessage) { s.sendTID(s.p.tid, m) }

func (s *scripted) sendTID(tid uint64, m mad.CMMessage) {
	h := mad.CMHeader(tid, m)
	b := make([]byte, mad.Size)
	h.Put(b)
	m.Put(b[mad.HeaderLen:])
	s.raw(b)
}

func (s *scripted) raw(b []byte) { s.rawFrom(1, s.p.agent, b) }

func (s *scripted) rawFrom(num uint8, a mads.Agent, b []byte) {
	path := s.p.x.path(num, s.x, 1)
	path.AV.Global = s.p.x.attr(num).Link == ci.LinkEthernet
	require.NoError(s.t, a.Send(&mads.Message{To: mads.Address{AV: path.AV, QPN: 1}, MAD: b}))
	s.settle()
}

// sendFromOtherPort sends a message from another port than the peer's.
func (s *scripted) sendFromOtherPort(m mad.CMMessage) {
	a := must(s.p.x.svc.Register(mads.AgentConfig{Port: s.p.x.port(2), Class: mad.ClassCM, Version: 3}))
	h := mad.CMHeader(s.p.tid, m)
	b := make([]byte, mad.Size)
	h.Put(b)
	m.Put(b[mad.HeaderLen:])
	s.rawFrom(2, a, b)
	require.NoError(s.t, a.Close())
}

// settle waits until datagrams have arrived and goroutines are idle.
func (s *scripted) settle() {
	time.Sleep(5 * time.Millisecond)
	synctest.Wait()
}

// take returns the messages that the peer has received since the last call.
func (s *scripted) take() (ms []mad.CMMessage) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for _, r := range s.p.got {
		_, m, err := mad.ParseCM(r.MAD)
		require.NoError(s.t, err)
		ms = append(ms, m)
	}
	s.p.got = nil
	return ms
}

// one returns the only message that the peer has received since the last call of take.
func one[T mad.CMMessage](s *scripted) T {
	s.t.Helper()
	ms := s.take()
	require.Len(s.t, ms, 1, "%v", ms)
	m, ok := ms[0].(T)
	require.True(s.t, ok, "%T", ms[0])
	return m
}

// request returns a valid REQ from the peer.
func (s *scripted) request(edit ...func(*mad.REQ)) *mad.REQ {
	r := &mad.REQ{LocalCommID: s.p.id, ServiceID: service1, LocalCAGUID: uint64(s.p.x.hca.Info().GUID),
		LocalQPN: s.p.id & 0xffff, RemoteTimeout: 18,
		LocalTimeout: 18, StartingPSN: 7, RetryCount: 7, PKey: 0xffff, PathMTU: mad.MTU1024, RNRRetryCount: 6,
		MaxCMRetries: 5, ResponderRes: 4,
		InitiatorDepth: 3, Primary: s.wire(1)}
	for _, e := range edit {
		e(r)
	}
	s.p.req = r
	return r
}

// wire returns the path between the ports with a number, as the peer describes it.
func (s *scripted) wire(num uint8) mad.CMPath {
	p := mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: s.p.x.attr(num).GIDs[0].GID,
		RemoteGID: s.x.attr(num).GIDs[0].GID, HopLimit: 64, AckTimeout: 15}
	if s.x.attr(num).Link == ci.LinkInfiniBand {
		p.LocalLID, p.RemoteLID, p.SubnetLocal = uint16(s.p.x.attr(num).LID), uint16(s.x.attr(num).LID), true
	}
	return p
}

// reply returns the peer's REP to a REQ.
func (s *scripted) reply(r *mad.REQ) *mad.REP {
	return &mad.REP{LocalCommID: s.p.id, RemoteCommID: r.LocalCommID, LocalQPN: s.p.id & 0xffff, StartingPSN: 9,
		ResponderRes: 2, InitiatorDepth: 2, TargetAckDelay: 15,
		LocalCAGUID: uint64(s.p.x.hca.Info().GUID)}
}

// A situation is a connection in a given state.
type situation struct {
	s    *scripted
	c    cm.Conn
	ids  struct{ ours, theirs uint32 }
	last []byte // the last message that the manager sent
	dtid uint64
	ends []func()
}

// finally registers a function that runs when the test of the situation ends.
func (s *situation) finally(f func()) { s.ends = append(s.ends, f) }

func (s *situation) end() {
	_ = s.c.Close()
	for _, f := range s.ends {
		f()
	}
	s.s.settle()
	s.s.take()
}

// background runs a call that blocks. It is canceled when the situation ends.
func (s *situation) background(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	s.finally(func() { cancel(); <-done })
	s.s.settle()
}

// noteLastSent stores the last message that the manager sent.
func (s *situation) noteLastSent() {
	s.s.p.mu.Lock()
	defer s.s.p.mu.Unlock()
	if n := len(s.s.p.got); n > 0 {
		s.last = s.s.p.got[n-1].MAD
	}
	s.s.p.got = nil
}

// ourReply returns the answer of our end in situations.
func ourReply() cm.AcceptConfig {
	a := reply()
	a.QP.Num = ourQPN
	return a
}

// enterREQRcvd begins a situation with a REQ from the peer.
func (s *scripted) enterREQRcvd() *situation {
	v := &situation{s: s}
	l := s.x.listen()
	s.send(s.request())
	v.c = must(l.Accept(s.t.Context()))
	require.NoError(s.t, l.Close())
	v.ids.ours, v.ids.theirs = v.c.ID(), s.p.id
	v.noteLastSent()
	return v
}

// enterREQSent begins a situation with a REQ to the peer.
func (s *scripted) enterREQSent() *situation {
	v := &situation{s: s}
	v.background(func(ctx context.Context) {
		_, _ = s.x.m.Connect(ctx, s.x.requestTo(s.p.x, func(c *cm.ConnectConfig) { c.QP.Num = ourQPN }))
	})
	s.p.req = one[*mad.REQ](s)
	v.c = cm.Find(s.x.m, s.p.req.LocalCommID)
	v.ids.ours, v.ids.theirs = s.p.req.LocalCommID, s.p.id
	return v
}

// situations has all states that last, some of them for both roles.
var situations = map[string]struct {
	state cm.State
	enter func(s *scripted) *situation
}{
	"REQSent": {cm.StateREQSent, (*scripted).enterREQSent},
	"REPWait": {cm.StateREPWait, func(s *scripted) *situation {
		v := s.enterREQSent()
		s.send(&mad.MRA{LocalCommID: s.p.id, RemoteCommID: v.ids.ours, Message: mad.WhichREQ, ServiceTimeout: 20})
		return v
	}},
	"REQRcvd": {cm.StateREQRcvd, (*scripted).enterREQRcvd},
	"MRAREQSent": {cm.StateMRAREQSent, func(s *scripted) *situation {
		v := s.enterREQRcvd()
		require.NoError(s.t, v.c.Delay(20, nil))
		s.settle()
		v.noteLastSent()
		return v
	}},
	"REPSent": {cm.StateREPSent, enterREPSent},
	"MRAREPRcvd": {cm.StateMRAREPRcvd, func(s *scripted) *situation {
		v := enterREPSent(s)
		s.send(&mad.MRA{LocalCommID: s.p.id, RemoteCommID: v.ids.ours, Message: mad.WhichREP, ServiceTimeout: 20})
		return v
	}},
	"REPRcvd": {cm.StateREPRcvd, enterREPRcvd},
	"MRAREPSent": {cm.StateMRAREPSent, func(s *scripted) *situation {
		v := enterREPRcvd(s)
		require.NoError(s.t, v.c.Delay(20, nil))
		s.settle()
		v.noteLastSent()
		return v
	}},
	"Established, active":  {cm.StateEstablished, enterActive},
	"Established, passive": {cm.StateEstablished, enterPassive},
	"DREQSent, active":     {cm.StateDREQSent, func(s *scripted) *situation { return enterDREQSent(enterActive(s)) }},
	"DREQSent, passive":    {cm.StateDREQSent, func(s *scripted) *situation { return enterDREQSent(enterPassive(s)) }},
	"DREQRcvd": {cm.StateDREQRcvd, func(s *scripted) *situation {
		v := enterPassive(s)
		s.sendTID(0xd0, v.dreq())
		v.dtid = 0xd0
		return v
	}},
	"TimeWait, answered": {cm.StateTimeWait, func(s *scripted) *situation {
		v := enterActive(s)
		s.sendTID(0xd0, v.dreq())
		v.dtid = 0xd0
		require.NoError(s.t, v.c.AnswerDisconnect([]byte("drep")))
		s.settle()
		v.noteLastSent()
		return v
	}},
	"TimeWait, rejected": {cm.StateTimeWait, func(s *scripted) *situation {
		v := s.enterREQRcvd()
		require.NoError(s.t, v.c.Reject(mad.RejConsumer, nil, []byte("rej")))
		s.settle()
		v.noteLastSent()
		return v
	}},
	"TimeWait, rejected REP": {cm.StateTimeWait, func(s *scripted) *situation {
		v := enterREPRcvd(s)
		require.NoError(s.t, v.c.Reject(mad.RejConsumer, nil, []byte("rej")))
		s.settle()
		v.noteLastSent()
		return v
	}},
}

func enterREPSent(s *scripted) *situation {
	v := s.enterREQRcvd()
	v.background(func(ctx context.Context) { _ = v.c.Accept(ctx, ourReply()) })
	v.noteLastSent()
	return v
}

func enterREPRcvd(s *scripted) *situation {
	v := s.enterREQSent()
	s.send(s.reply(s.p.req))
	v.noteLastSent()
	return v
}

func enterActive(s *scripted) *situation {
	v := enterREPRcvd(s)
	require.NoError(s.t, v.c.Confirm([]byte("rtu")))
	s.settle()
	v.noteLastSent()
	return v
}

func enterPassive(s *scripted) *situation {
	v := enterREPSent(s)
	s.send(&mad.RTU{LocalCommID: s.p.id, RemoteCommID: v.ids.ours})
	v.last = nil
	return v
}

func enterDREQSent(v *situation) *situation {
	v.background(func(ctx context.Context) { _, _ = v.c.Disconnect(ctx, nil) })
	v.noteLastSent()
	return v
}

func (s *situation) dreq() *mad.DREQ {
	return &mad.DREQ{LocalCommID: s.ids.theirs, RemoteCommID: s.ids.ours, RemoteQPN: ourQPN}
}
