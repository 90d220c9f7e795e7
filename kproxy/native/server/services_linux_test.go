package server_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	daemon "ciddk/kproxy/services"
)

// path returns a path from the adapter to itself.
func (q *sequence) path() schema.CMPath {
	av := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: q.gid, HopLimit: 64}}
	return schema.CMPath{Port: schema.PortID{CA: q.guid, Num: 1}, AV: schema.NewAVAttr(&av), PKey: 0xffff,
		MTU: ci.MTU1024, LifeTime: 1}
}

// serve creates an object of each kind of the services, and a connection between two QPs of the client.
func (q *sequence) serve() {
	events := q.handle(schema.KindEventQueue)
	s := q.made(schema.CmdOpenServices, &schema.OpenServices{Async: events})
	q.made(schema.CmdBindPort, &schema.BindPort{Services: s, Space: 0x0106})
	port := schema.PortID{CA: q.guid, Num: 1}
	q.made(schema.CmdRegisterAgent, &schema.RegisterAgent{Services: s, Port: port, Class: 0x30, Version: 1,
		OUI: [3]uint8{1, 2, 3}, Methods: []uint8{1, 2}})
	l := q.made(schema.CmdCMListen, &schema.CMListen{Services: s, ServiceID: 1})
	q.request(schema.CmdCMAccept, native.Append(nil, &schema.CMAccept{Listener: l, Op: 1}), nil)
	q.made(schema.CmdCMConnect, &schema.CMConnect{Services: s, Op: 2, ServiceID: 1, Primary: q.path(),
		QP: schema.CMQP{Num: q.nums[0], Type: ci.RC}, ResponseTime: 10, RemoteResponseTime: 10, MaxRetries: 1})
}

// late is a service that is set after the server that uses it was created.
type late struct{ kproxy.Service }

// newServices returns a daemon with services for sequences.
func newServices(t testing.TB) *sequences {
	service := new(late)
	s := newSequencesOf(t, service)
	m, err := mads.New(s.r.al, mads.Config{})
	require.NoError(t, err)
	c, err := cm.New(s.r.al, m, cm.Config{})
	require.NoError(t, err)
	d, err := daemon.New(daemon.Config{AL: s.r.al, MAD: m, CM: c})
	require.NoError(t, err)
	service.Service = d
	t.Cleanup(func() {
		require.NoError(t, s.honest.c.Close())
		require.Eventually(t, func() bool { return len(s.r.core.Sessions()) == 0 }, testenv.Patience, time.Millisecond)
		require.NoError(t, d.Close())
		require.NoError(t, c.Close())
		require.NoError(t, m.Close())
	})
	return s
}

// runServices executes a script whose commands are those of the services, and checks that others are served
// afterwards, and that the client's session ends.
func (s *sequences) runServices(t testing.TB, b []byte) {
	s.r.t = t
	q := &sequence{client: s.r.client(), script: script{b}, arena: s.arena, guid: s.r.hca.Info().GUID, gid: s.gid,
		requests: services}
	q.create()
	q.serve()
	for len(q.b) > 0 {
		q.verb(pick(&q.script, q.requests))
	}
	if len(b)%2 == 0 { // otherwise the connection ends with requests in execution
		q.receive()
	}
	require.NoError(t, q.c.Close())
	require.NoError(t, s.honest.do(schema.CmdQueryQP, &schema.QP{QP: s.o.qp}, &schema.QPAttr{}))
	require.Eventually(t, func() bool { return len(s.r.core.Sessions()) == 1 }, testenv.Patience, time.Millisecond)
	require.Zero(t, s.r.core.Load().ServiceBytes)
}

// TestServiceSequences executes random sequences of requests of the services.
func TestServiceSequences(t *testing.T) {
	s := newServices(t)
	executed := s.r.core.Load().Requests
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		b := make([]byte, 4000)
		for i := 0; i < len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], rnd.Uint64())
		}
		s.runServices(t, b[:len(b)-int(seed%2)])
	}
	require.Greater(t, s.r.core.Load().Requests-executed, uint64(1000))
}

// FuzzServices executes sequences of requests of the services, whose handles and numbers are mostly those of the
// client's objects. No sequence may stop the daemon, end the session, have a reply that does not match its declaration,
// or leave anything behind.
func FuzzServices(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a sequence of services"))
	s := newServices(f)
	f.Fuzz(func(t *testing.T, b []byte) { s.runServices(t, b[:min(len(b), 4000)]) })
}
