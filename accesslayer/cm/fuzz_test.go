package cm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// sinkService is a mads.Service that keeps the last datagram and delivers none. It has no goroutines and no clock.
type sinkService struct {
	ports []mads.Port

	mu      sync.Mutex
	receive map[mads.Port]func(*mads.Received)
	sent    []byte // the last datagram
	n       int
	changed chan struct{}
}

func (s *sinkService) Ports() []mads.Port { return s.ports }

func (s *sinkService) Watch(f func(mads.Port, bool)) func() {
	for _, p := range s.ports {
		f(p, true)
	}
	return func() {}
}

func (s *sinkService) Register(cfg mads.AgentConfig) (mads.Agent, error) {
	if cfg.Version == mad.ClassVersionCM {
		s.receive[cfg.Port] = cfg.OnReceive
	}
	return &sinkAgent{s, cfg.Port}, nil
}

type sinkAgent struct {
	s *sinkService
	p mads.Port
}

func (s *sinkAgent) Port() mads.Port { return s.p }

func (s *sinkAgent) Send(m *mads.Message) error {
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	s.s.sent = append(s.s.sent[:0], m.MAD...)
	s.s.n++
	close(s.s.changed)
	s.s.changed = make(chan struct{})
	return nil
}

func (s *sinkAgent) Do(context.Context, *mads.Message) (*mads.Received, error) {
	return nil, ci.Unsupported
}

func (s *sinkAgent) StartDo(context.Context, *mads.Message, func(*mads.Received, error)) error {
	return ci.Unsupported
}
func (s *sinkAgent) Recv(context.Context) (*mads.Received, error) { return nil, ci.Unsupported }
func (s *sinkAgent) Close() error                                 { return nil }

// fuzzed returns the attributes of the two HCAs, which all runs share.
var fuzzed = sync.OnceValue(func() (x struct {
	al    *accesslayer.AL
	ports []mads.Port
}) {
	x.al = accesslayer.New(accesslayer.Config{PollInterval: -1})
	n := sim.NewNetwork(sim.NetworkConfig{})
	for i, p := range []rvt.Port{testenv.Must(direct.New(direct.NewLink(), direct.Config{LID: 1})),
		testenv.Must(sim.New(n, sim.Config{Addr: netip.MustParseAddr("10.0.0.1")}))} {
		guid := ci.GUID(0x1000 + i)
		if err := x.al.Register(must(reference.New(reference.Config{GUID: guid, Ports: []rvt.Port{p}}))); err != nil {
			panic(err)
		}
		x.ports = append(x.ports, mads.Port{CA: guid, Num: 1})
	}
	return x
})

// run is a manager with a peer that sends arbitrary messages and consumers that make arbitrary calls.
type run struct {
	t     *testing.T
	data  []byte
	clock *clock.Virtual
	s     *sinkService
	m     *cm.Manager
	ls    []cm.Listener
	calls sync.WaitGroup

	mu      sync.Mutex
	conns   []cm.Conn
	lookups []cm.LookupRequest
}

func (r *run) byte() byte {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

// call runs a function that may block, and returns when it has sent a datagram or returned.
func (r *run) call(f func(ctx context.Context)) {
	r.s.mu.Lock()
	sent := r.s.changed
	r.s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.calls.Go(func() { defer close(done); defer cancel(); f(ctx) })
	select {
	case <-sent:
	case <-done:
	case <-time.After(testenv.Patience):
		panic("the call neither sends nor returns")
	}
}

// start starts a step. The run waits for its end, and panics if the step ends twice.
func (r *run) start(f func(end func()) error) {
	r.calls.Add(1)
	if err := f(r.calls.Done); err != nil {
		r.calls.Done()
	}
}

func (r *run) path() cm.Path {
	if r.byte()&1 == 0 {
		return cm.Path{Port: r.s.ports[0], AV: ci.AVAttr{DLID: 7}, LifeTime: 5}
	}
	return cm.Path{Port: r.s.ports[1], AV: ci.AVAttr{GRH: ci.GRH{DGID: ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: 9}}},
		LifeTime: 5}
}

func (r *run) conn() cm.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.conns) == 0 {
		return nil
	}
	return r.conns[int(r.byte())%len(r.conns)]
}

func (r *run) add(c cm.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
}

// all returns the connections so far. Calls that have not returned may add others.
func (r *run) all() []cm.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.conns)
}

// step performs one action.
func (r *run) step() {
	c := r.conn()
	b := r.byte()
	started := b/24%2 == 1 // use the event-driven form of the call
	switch op := b % 24; {
	case op < 10:
		r.inject(op)
	case op == 10:
		r.clock.Advance(time.Duration(r.byte()) * time.Duration(r.byte()) * time.Millisecond)
	case op == 11:
		path, peer := r.path(), r.byte()
		cfg := cm.ConnectConfig{Service: service1, QP: cm.QP{Num: ci.QPN(peer)}, Primary: path, MaxRetries: 3,
			ResponseTime: 10, RemoteResponseTime: 10, Peer: peer&1 != 0}
		result := func(c cm.Conn, err error) {
			if err == nil {
				r.add(c)
			}
		}
		if started {
			r.start(func(end func()) error {
				return r.m.StartConnect(context.Background(), cfg, func(c cm.Conn, err error) { result(c, err); end() })
			})
			break
		}
		r.call(func(ctx context.Context) { result(r.m.Connect(ctx, cfg)) })
	case op == 12:
		for _, l := range r.ls {
			if c := cm.AcceptNow(l); c != nil {
				r.add(c)
			}
			if q := cm.AcceptLookupNow(l); q != nil {
				r.lookups = append(r.lookups, q)
			}
		}
	case op == 13 && len(r.lookups) > 0:
		q := r.lookups[len(r.lookups)-1]
		r.lookups = r.lookups[:len(r.lookups)-1]
		if r.byte()&1 == 0 {
			_ = q.Accept(5, 6, nil)
		} else {
			_ = q.Reject(mad.SIDRNoQP, nil, nil)
		}
	case op == 14:
		path := r.path()
		cfg := cm.LookupConfig{Service: service1, Path: path, Timeout: time.Second, Retries: 1}
		if started {
			r.start(func(end func()) error {
				return r.m.StartLookup(context.Background(), cfg, func(*cm.LookupReply, error) { end() })
			})
			break
		}
		r.call(func(ctx context.Context) { _, _ = r.m.Lookup(ctx, cfg) })
	case c == nil:
	case op == 15:
		qpn := ci.QPN(r.byte())
		cfg := cm.AcceptConfig{QP: cm.QP{Num: qpn, Type: ci.QPType(c.Request().Service)}}
		if started {
			r.start(func(end func()) error {
				return c.StartAccept(context.Background(), cfg, func(error) { end() })
			})
			break
		}
		r.call(func(ctx context.Context) { _ = c.Accept(ctx, cfg) })
	case op == 16:
		_ = c.Confirm(nil)
	case op == 17:
		_ = c.Established()
	case op == 18:
		_ = c.Delay(mad.TimeExp(r.byte()), nil)
	case op == 19:
		_ = c.Reject(mad.RejReason(r.byte()), nil, nil)
	case op == 20:
		if started {
			r.start(func(end func()) error {
				return c.StartDisconnect(context.Background(), nil, func([]byte, error) { end() })
			})
			break
		}
		r.call(func(ctx context.Context) { _, _ = c.Disconnect(ctx, nil) })
	case op == 21:
		path := r.path()
		cfg := cm.AlternateConfig{Path: path}
		if started {
			r.start(func(end func()) error {
				return c.StartLoadAlternate(context.Background(), cfg, func(*mad.APR, error) { end() })
			})
			break
		}
		r.call(func(ctx context.Context) { _, _ = c.LoadAlternate(ctx, cfg) })
	case op == 22:
		switch r.byte() % 4 {
		case 0:
			_ = c.AnswerAlternate(mad.APRStatus(r.byte()), nil, nil)
		case 1:
			_ = c.AnswerDisconnect(nil)
		case 2:
			_ = c.Migrated()
		case 3:
			_ = c.Handoff(service1 + mad.ServiceID(r.byte()&1))
		}
	case op == 23:
		_ = c.Close()
	}
}

// inject delivers a datagram: arbitrary bytes, or a message whose IDs may belong to a connection.
func (r *run) inject(op byte) {
	in := r.byte()
	port := r.s.ports[in&1]
	rec := &mads.Received{Port: port, From: mads.Address{QPN: 1, AV: ci.AVAttr{DLID: 7}}, MAD: make([]byte, mad.Size)}
	if in&1 == 1 {
		rec.From.AV = ci.AVAttr{Global: true, GRH: ci.GRH{DGID: ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: 9}}}
	}
	if op == 0 { // arbitrary bytes
		n := copy(rec.MAD, r.data)
		r.data = r.data[n:]
		if in&2 != 0 {
			rec.MAD = rec.MAD[:n]
		}
		r.s.receive[port](rec)
		return
	}
	attr := mad.AttrREQ + uint16(r.byte())%(mad.AttrAPR-mad.AttrREQ+1)
	msg := mad.NewCMMessage(attr)
	b := make([]byte, mad.CMDataLen)
	if in&4 != 0 {
		for i := range b {
			b[i] = r.byte()
		}
	}
	msg.Parse(b)
	ours, theirs := uint32(r.byte()), uint32(r.byte())
	if c := r.conn(); c != nil && in&8 == 0 {
		ours, theirs = c.ID(), c.RemoteID()
	} else if in&16 == 0 { // the last message that was sent identifies it
		r.s.mu.Lock()
		if len(r.s.sent) == mad.Size {
			ours = uint32(r.s.sent[24])<<24 | uint32(r.s.sent[25])<<16 | uint32(r.s.sent[26])<<8 | uint32(r.s.sent[27])
		}
		r.s.mu.Unlock()
	}
	switch m := msg.(type) {
	case *mad.REQ:
		if in&32 == 0 { // a valid message
			*m = mad.REQ{LocalCommID: theirs, ServiceID: service1, LocalCAGUID: 9, LocalQPN: theirs + 16, PKey: 0xffff,
				PathMTU: mad.MTU256, RemoteTimeout: mad.TimeExp(r.byte() & 31),
				LocalTimeout: 10, MaxCMRetries: 3, Service: mad.TransportService(r.byte() & 1),
				Primary: mad.CMPath{LocalLID: 7, RemoteLID: 1, SubnetLocal: true}}
			if in&1 == 1 {
				m.Primary = mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: ci.GID{10: 0xff, 11: 0xff, 12: 10,
					15: 9}, RemoteGID: ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}}
			}
		}
	case *mad.REP:
		m.RemoteCommID, m.LocalCommID = ours, theirs
	case *mad.RTU:
		m.RemoteCommID, m.LocalCommID = ours, theirs
	case *mad.REJ:
		m.RemoteCommID, m.LocalCommID = ours, theirs
	case *mad.MRA:
		m.RemoteCommID, m.LocalCommID = ours, theirs
	case *mad.DREQ:
		m.RemoteCommID, m.LocalCommID = ours, theirs
		m.RemoteQPN = uint32(r.byte())
	case *mad.DREP:
		m.RemoteCommID, m.LocalCommID = ours, theirs
	case *mad.LAP:
		m.RemoteCommID, m.LocalCommID = ours, theirs
		m.RemoteQPN = uint32(r.byte())
	case *mad.APR:
		m.RemoteCommID, m.LocalCommID = ours, theirs
	case *mad.SIDRREQ:
		m.ServiceID, m.PKey = service1, 0xffff
	case *mad.SIDRREP:
		m.RequestID = ours
	}
	h := mad.CMHeader(uint64(r.byte()), msg)
	h.Put(rec.MAD)
	msg.Put(rec.MAD[mad.HeaderLen:])
	r.s.receive[port](rec)
}

// FuzzMessages delivers arbitrary messages to a manager while its consumers make arbitrary calls. Then the consumers
// close everything and time passes. In the end no connection, pending request, timer or blocked call may be left.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{})
	for seed := range byte(8) {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(fuzzOne)
}

func fuzzOne(t *testing.T, data []byte) {
	x := fuzzed()
	r := &run{t: t, data: data, clock: clock.NewVirtual(time.Hour)}
	r.s = &sinkService{ports: x.ports, receive: map[mads.Port]func(*mads.Received){}, changed: make(chan struct{})}
	r.m = must(cm.New(x.al, r.s, cm.Config{Clock: r.clock, Rand: rand.New(rand.NewPCG(1, 1)), MaxPending: 8,
		MaxTimeWait: 8}))
	for i := range 2 {
		r.ls = append(r.ls, must(r.m.Listen(cm.ListenConfig{Service: service1 + mad.ServiceID(i)})),
			must(r.m.Listen(cm.ListenConfig{Service: service1 + mad.ServiceID(i), Datagram: true})))
	}
	for len(r.data) > 0 {
		r.step()
	}
	for _, c := range r.all() {
		_ = c.Close()
	}
	for _, l := range r.ls {
		require.NoError(t, l.Close())
	}
	finished := make(chan struct{})
	go func() { r.calls.Wait(); close(finished) }()
	for deadline := time.Now().Add(testenv.Patience); ; {
		r.clock.Advance(24 * time.Hour) // again, for a call that had sent its message and not yet set its timer
		select {
		case <-finished:
		case <-time.After(time.Millisecond):
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Fatalf("a call has not returned:\n%s", buf[:runtime.Stack(buf, true)])
			}
			continue
		}
		break
	}
	for _, c := range r.conns { // those that Connect has returned meanwhile
		_ = c.Close()
	}
	r.clock.Advance(24 * time.Hour)
	for table, n := range cm.Tables(r.m) {
		require.Zero(t, n, table)
	}
	require.Zero(t, r.clock.Pending(), "timers")
	for i, c := range r.conns {
		require.Equal(t, cm.StateClosed, c.State(), fmt.Sprint(i))
	}
	require.NoError(t, r.m.Close())
}
