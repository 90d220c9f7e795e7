package services_test

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/mad"
	"ciddk/ual"
	"ciddk/ual/services"
)

// unprivileged are the settings of a daemon whose clients are not privileged.
func unprivileged() kproxy.Config {
	return kproxy.Config{Privileged: func(kproxy.Peer) bool { return false }}
}

// status returns the status of an error, and fails for nil.
func status(t *testing.T, err error) ci.Status {
	t.Helper()
	require.Error(t, err)
	return ci.StatusOf(err)
}

// TestListenersOverlap checks which listeners of another client are rejected: those that would receive a request of
// the first one.
func TestListenersOverlap(t *testing.T) {
	r := newRig(t, unprivileged(), simPorts(t, "10.0.0.1", "10.0.0.2")...)
	one, _ := r.open()
	two, _ := r.open()
	const service = 0x1000000000000042
	gid := ci.GID{15: 1}
	l, err := one.CM().Listen(cm.ListenConfig{Service: service, GID: gid, Compare: []byte{7, 8}, Offset: 4})
	require.NoError(t, err)
	for _, x := range []struct {
		name string
		cfg  cm.ListenConfig
		ok   bool
	}{
		{"the same service", cm.ListenConfig{Service: service}, false},
		{"more data", cm.ListenConfig{Service: service, Compare: []byte{7, 8, 9}, Offset: 4}, false},
		{"other bytes", cm.ListenConfig{Service: service, Compare: []byte{9}, Offset: 8}, false},
		{"one port", cm.ListenConfig{Service: service, Port: mads.Port{CA: r.hcas[0].Info().GUID, Num: 1}}, false},
		{"a partition", cm.ListenConfig{Service: service, PKey: 0xffff}, false},
		{"another service", cm.ListenConfig{Service: service + 1}, true},
		{"another GID", cm.ListenConfig{Service: service, GID: ci.GID{15: 2}}, true},
		{"other data", cm.ListenConfig{Service: service, Compare: []byte{6, 8}, Offset: 4}, true},
		{"datagrams", cm.ListenConfig{Service: service, Datagram: true}, true},
	} {
		other, err := two.CM().Listen(x.cfg)
		if !x.ok {
			assert.Equal(t, ci.Status(ci.InvalidSetting), status(t, err), x.name)
			continue
		}
		if assert.NoError(t, err, x.name) {
			require.NoError(t, other.Close())
		}
	}
	_, err = two.CM().Listen(cm.ListenConfig{Service: 0, Mask: 1 << 63})
	assert.Equal(t, ci.Status(ci.InvalidPermission), status(t, err), "many service IDs")
	require.NoError(t, l.Close())
	l, err = two.CM().Listen(cm.ListenConfig{Service: service})
	require.NoError(t, err, "the first listener is closed")
	require.NoError(t, l.Close())
}

// TestForgedHandles uses every handle of one client from another one, and with other kinds.
func TestForgedHandles(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1", "10.0.0.2")...)
	server, client := r.manager(), r.manager()
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	ln, err := server.Listen(at, rdmacm.ListenConfig{})
	require.NoError(t, err)
	go func() {
		if q, err := ln.Accept(t.Context()); err == nil {
			_, _ = q.Accept(t.Context()) // the test ends with the connection
		}
	}()
	c, err := client.Dial(deadline(t), at)
	require.NoError(t, err)
	_, thief := r.open()
	do := func(cmd schema.Command, request, reply any) error { return thief.Do(cmd, request, reply) }
	none := &schema.None{}
	for index := range uint32(32) {
		for generation := range uint32(3) {
			h := func(k schema.Kind) schema.Handle { return schema.MakeHandle(k, generation+1, index) }
			conn, listener := h(schema.KindConn), h(schema.KindListener)
			call := func(c schema.CMCall) any { return &schema.CMConnCall{Conn: conn, Op: 1, Call: c} }
			answer := &schema.CMAnswerLookup{Request: h(schema.KindLookupRequest)}
			attr, received := &schema.CMQPAttr{Conn: conn, State: ci.QPRTR}, &schema.TakeMADReply{}
			for name, err := range map[string]error{
				"disconnect": do(schema.CmdCMConnCall, call(schema.CMDisconnect), none),
				"reject":     do(schema.CmdCMConnCall, call(schema.CMReject), none),
				"query":      do(schema.CmdCMConn, &schema.CMConn{Conn: conn}, &schema.CMConnReply{}),
				"attributes": do(schema.CmdCMQPAttr, attr, &schema.CMQPAttrReply{}),
				"take":       do(schema.CmdTakeNotice, &schema.TakeNotice{Object: conn}, &schema.Notice{}),
				"steal":      do(schema.CmdTakeNotice, &schema.TakeNotice{Object: listener}, &schema.Notice{}),
				"accept":     do(schema.CmdCMAccept, &schema.CMAccept{Listener: listener, Op: 1, Token: 1}, none),
				"destroy":    do(schema.CmdDestroy, &schema.Object{Handle: conn}, &schema.DestroyReply{}),
				"close":      do(schema.CmdDestroy, &schema.Object{Handle: listener}, &schema.DestroyReply{}),
				"cancel":     do(schema.CmdCancel, &schema.Cancel{Object: listener, Op: 1}, none),
				"answer":     do(schema.CmdCMAnswerLookup, answer, none),
				"port":       do(schema.CmdListenPort, &schema.ListenPort{Port: h(schema.KindPort)}, none),
				"MAD":        do(schema.CmdTakeMAD, &schema.TakeMAD{Agent: h(schema.KindAgent)}, received),
				"event queue as object": do(schema.CmdTakeNotice, &schema.TakeNotice{Object: h(schema.KindEventQueue)},
					&schema.Notice{}),
			} {
				require.ErrorIs(t, err, ci.InvalidHandle, "%s %d %d", name, index, generation)
			}
		}
	}
	require.NoError(t, c.Send(deadline(t), []byte("still connected")))
	require.NoError(t, c.Close())
}

// TestForeignQP requests a connection for the queue pair of another client.
func TestForeignQP(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1")...)
	owner, client := r.open()
	ca, err := must(client.HCA(r.hcas[0].Info().GUID)).OpenCA(r.hcas[0].Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
	require.NoError(t, err)
	qp, err := pd.CreateQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq})
	require.NoError(t, err)
	attr, err := ca.Query()
	require.NoError(t, err)
	gid := attr.Ports[0].GIDs[0].GID
	cfg := cm.ConnectConfig{Service: 1, QP: cm.QP{Num: qp.Num()}, Primary: cm.Path{
		Port: mads.Port{CA: attr.GUID, Num: 1}, AV: ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: gid}}}}
	thief, _ := r.open()
	_, err = thief.CM().Connect(deadline(t), cfg)
	require.ErrorIs(t, err, ci.InvalidQPHandle)
	_, err = owner.CM().Connect(deadline(t), cfg)
	_, rejected := errors.AsType[*cm.RejectError](err)
	require.True(t, rejected, "nobody listens: %v", err)
	cfg.QP.Num++
	_, err = owner.CM().Connect(deadline(t), cfg)
	require.ErrorIs(t, err, ci.InvalidQPHandle)
	cfg.Primary.Port.CA++
	_, err = owner.CM().Connect(deadline(t), cfg)
	require.ErrorIs(t, err, ci.InvalidPort, "an HCA that does not exist")
}

func must[T any](t T, err error) T {
	if err != nil {
		panic(err)
	}
	return t
}

// TestAgents checks the agents of an unprivileged client, with requests from one client to another.
func TestAgents(t *testing.T) {
	r := newRig(t, unprivileged(), simPorts(t, "10.0.0.1", "10.0.0.2")...)
	one, _ := r.open()
	two, client := r.open()
	ports := one.MAD().Ports()
	require.Len(t, ports, 2)
	const class = mad.ClassVendor1First
	vendor := mads.AgentConfig{Name: "vendor", Port: ports[0], Class: class, Version: 1, Methods: []mad.Method{mad.Get}}
	for name, cfg := range map[string]mads.AgentConfig{
		"QP0":          {Port: ports[0], SubnetManagement: true, Class: mad.ClassSubnetLID, Version: 1},
		"all classes":  {Port: ports[0]},
		"CM":           {Port: ports[0], Class: mad.ClassCM, Version: mad.ClassVersionCM},
		"PM requests":  {Port: ports[0], Class: mad.ClassPerformance, Version: 1, Methods: []mad.Method{mad.Get}},
		"undelivered":  {Port: ports[0], Class: class, Version: 1, OnUndelivered: func(*mads.Undelivered) {}},
		"SA responses": {Port: ports[0], Class: mad.ClassSubnetAdmin, Version: 2, Methods: []mad.Method{mad.Set}},
	} {
		_, err := one.MAD().Register(cfg)
		assert.Equal(t, ci.Status(ci.InvalidPermission), status(t, err), name)
	}
	server, err := one.MAD().Register(vendor)
	require.NoError(t, err)
	_, err = two.MAD().Register(vendor)
	assert.Equal(t, ci.Status(ci.ResourceBusy), status(t, err), "another client has the method")

	go func() {
		for {
			m, err := server.Recv(t.Context())
			if err != nil {
				return
			}
			m.MAD[3] |= byte(mad.ResponseMask)
			m.MAD[100]++
			if server.Send(&mads.Message{To: m.From, MAD: m.MAD}) != nil {
				return
			}
		}
	}()
	vendor.Port, vendor.Methods = ports[1], nil
	requester, err := two.MAD().Register(vendor)
	require.NoError(t, err)
	hca := must(client.HCA(ports[0].CA))
	ca, err := hca.OpenCA(ports[0].CA, func(ci.Event) {}, nil)
	require.NoError(t, err)
	attr, err := ca.Query()
	require.NoError(t, err)
	to := mads.Address{QPN: 1, AV: ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: attr.Ports[0].GIDs[0].GID}}}
	request := func(method mad.Method, class mad.Class, tid uint64) *mads.Message {
		b := make([]byte, mad.Size)
		h := mad.Header{BaseVersion: 1, Class: class, ClassVersion: 1, Method: method, TID: tid}
		h.Put(b)
		b[100] = 41
		return &mads.Message{To: to, MAD: b, Timeout: time.Second, Retries: 3}
	}
	m, err := requester.Do(deadline(t), request(mad.Get, class, 0x1234567812345678))
	require.NoError(t, err)
	assert.EqualValues(t, 42, m.MAD[100])
	h := m.Header()
	assert.EqualValues(t, 0x1234567812345678, h.TID, "the caller's transaction ID")

	for name, x := range map[string]struct {
		m *mads.Message
		s ci.Status
	}{
		"a response":               {request(mad.GetResp, class, 1), ci.InvalidPermission},
		"another's transaction ID": {request(mad.Get, class, 1<<32), ci.InvalidPermission},
		"an SMP":                   {request(mad.Get, mad.ClassSubnetLID, 1), ci.InvalidPermission},
		"another class":            {request(mad.Get, class+1, 1), ci.InvalidParameter},
	} {
		err := requester.Send(x.m)
		if name == "an SMP" { // the class's check, or that of the agent
			assert.Error(t, err, name)
			continue
		}
		assert.Equal(t, x.s, status(t, err), name)
	}
	pm, err := two.MAD().Register(mads.AgentConfig{Port: ports[1], Class: mad.ClassPerformance, Version: 1})
	require.NoError(t, err)
	assert.Equal(t, ci.Status(ci.InvalidPermission), status(t, pm.Send(request(mad.Set, mad.ClassPerformance, 1))),
		"counters are reset for all processes")

	// The end of the context, and of the agent.
	quiet := request(mad.Get, class+0, 1)
	quiet.To.AV.GRH.DGID = ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: 77}
	quiet.Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	done := func(_ *mads.Received, err error) { ended <- err }
	require.NoError(t, requester.StartDo(ctx, quiet, done))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, requester.StartDo(t.Context(), quiet, done))
	require.NoError(t, requester.Close())
	require.ErrorIs(t, <-ended, accesslayer.ErrClosed)
	require.ErrorIs(t, requester.Send(quiet), accesslayer.ErrClosed)
	require.NoError(t, server.Close())
	_, err = server.Recv(t.Context())
	require.ErrorIs(t, err, accesslayer.ErrClosed)
}

// TestPrivilegedQKey sets the Q_Key of QP1 in a queue pair, from which datagrams would reach the QP1 of peers.
func TestPrivilegedQKey(t *testing.T) {
	for _, privileged := range []bool{true, false} {
		r := newRig(t, kproxy.Config{Privileged: func(kproxy.Peer) bool { return privileged }},
			simPorts(t, "10.0.0.1")...)
		guid := r.hcas[0].Info().GUID
		ca, err := must(r.connect().HCA(guid)).OpenCA(guid, func(ci.Event) {}, nil)
		require.NoError(t, err)
		pd, err := ca.AllocatePD(ci.PDNormal)
		require.NoError(t, err)
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		require.NoError(t, err)
		qp, err := pd.CreateQP(ci.QPCreate{Type: ci.UD, SendCQ: cq, RecvCQ: cq})
		require.NoError(t, err)
		attr := ci.QPAttr{State: ci.QPInit, Port: 1, QKey: ci.QKey(mad.QKeyGSI)}
		err = qp.Modify(ci.QPFieldsUDInit, attr)
		if privileged {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ci.InvalidPermission)
		attr.QKey = cmid.QKey
		require.NoError(t, qp.Modify(ci.QPFieldsUDInit, attr))
	}
}

// TestSubnetAdministrator queries from a port without a subnet administrator: the error is that of the local client.
func TestSubnetAdministrator(t *testing.T) {
	r := newRig(t, unprivileged(), simPorts(t, "10.0.0.1")...)
	s, _ := r.open()
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	stop, err := s.Follow(al)
	require.NoError(t, err)
	c := sa.New(al, s.MAD(), sa.Config{})
	_, err = c.Path(deadline(t), s.MAD().Ports()[0], sa.PathQuery{SGID: ci.GID{1}, DGID: ci.GID{2}})
	require.ErrorIs(t, err, ci.InvalidPort, "an Ethernet port")
	require.NoError(t, c.Close())
	stop()
	require.NoError(t, al.Close())
}

// TestPnP adds and removes an adapter of the daemon. The process's access layer reports both.
func TestPnP(t *testing.T) {
	ports := simPorts(t, "10.0.0.1", "10.0.0.2")
	r := newRig(t, kproxy.Config{}, ports[0])
	s, _ := r.open()
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	stop, err := s.Follow(al)
	require.NoError(t, err)
	client, err := al.Open(accesslayer.ClientConfig{Name: "test"})
	require.NoError(t, err)
	events := make(chan string, 16)
	_, err = client.RegisterPnP(accesslayer.PnPConfig{
		Add:    func(*accesslayer.Adapter) (any, error) { events <- "add"; return nil, nil },
		Remove: func(*accesslayer.Adapter, any) { events <- "remove" }})
	require.NoError(t, err)
	services := make(chan bool, 16)
	unwatch := s.MAD().Watch(func(_ mads.Port, there bool) { services <- there })
	require.Equal(t, "add", <-events)
	require.True(t, <-services)
	h := r.add(ports[1])
	require.Equal(t, "add", <-events)
	require.True(t, <-services)
	require.Len(t, s.MAD().Ports(), 2)
	a, err := s.MAD().Register(mads.AgentConfig{Port: mads.Port{CA: h.Info().GUID, Num: 1},
		Class: mad.ClassPerformance, Version: 1})
	require.NoError(t, err)
	require.NoError(t, r.al.Deregister(h.Info().GUID))
	require.False(t, <-services)
	require.Equal(t, "remove", <-events)
	require.ErrorIs(t, a.Send(&mads.Message{MAD: make([]byte, mad.Size)}), accesslayer.ErrClosed,
		"the agents of a removed port are closed")
	unwatch()
	stop()
	require.NoError(t, al.Close())
}

// TestQuotas exceeds the limits of listeners, ports and connections.
func TestQuotas(t *testing.T) {
	r := newRig(t, kproxy.Config{Quota: kproxy.Quota{Listeners: 2, Ports: 3, Agents: 1, ServiceBytes: 1 << 20}},
		simPorts(t, "10.0.0.1")...)
	s, _ := r.open()
	for i := range 3 {
		_, err := s.CM().Listen(cm.ListenConfig{Service: mad.ServiceID(100 + i)})
		assert.Equal(t, i == 2, errors.Is(err, ci.InsufficientResources), "listener %d: %v", i, err)
	}
	for i := range 4 {
		b, err := s.Ports().Bind(cmid.TCP, netip.AddrPort{}, false)
		assert.Equal(t, i == 3, errors.Is(err, ci.InsufficientResources), "port %d: %v", i, err)
		if i == 0 {
			require.NoError(t, b.Listen())
			_, err := s.Ports().Bind(cmid.TCP, netip.AddrPortFrom(netip.Addr{}, b.Port()), true)
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			b.Unlisten()
			b.Release()
			b.Release()
			_, err = s.Ports().Bind(cmid.TCP, netip.AddrPortFrom(netip.Addr{}, b.Port()), false)
			require.NoError(t, err, "released")
		}
	}
	cfg := mads.AgentConfig{Port: s.MAD().Ports()[0], Class: mad.ClassPerformance, Version: 1}
	_, err := s.MAD().Register(cfg)
	require.NoError(t, err)
	_, err = s.MAD().Register(cfg)
	require.ErrorIs(t, err, ci.InsufficientResources)
	other, _ := r.open()
	_, err = other.CM().Listen(cm.ListenConfig{Service: 1, Backlog: 4096})
	require.ErrorIs(t, err, ci.InsufficientResources, "the bytes of the backlog")
}

// TestDaemonGone ends the daemon's server while steps are pending: they end with an error, and calls return at once.
func TestDaemonGone(t *testing.T) {
	r := newRig(t, kproxy.Config{}, simPorts(t, "10.0.0.1")...)
	c, err := ual.Dial(ual.Config{Path: r.path})
	require.NoError(t, err)
	s, err := services.Open(c)
	require.NoError(t, err)
	l, err := s.CM().Listen(cm.ListenConfig{Service: 1})
	require.NoError(t, err)
	ended := make(chan error, 2)
	require.NoError(t, l.StartAccept(t.Context(), func(_ cm.Conn, err error) { ended <- err }))
	a, err := s.MAD().Register(mads.AgentConfig{Port: s.MAD().Ports()[0], Class: mad.ClassVendor1First, Version: 1,
		Methods: []mad.Method{mad.Get}})
	require.NoError(t, err)
	go func() {
		_, err := a.Recv(t.Context())
		ended <- err
	}()
	r.server.Close()
	for range 2 {
		require.ErrorIs(t, <-ended, ual.ErrDisconnected)
	}
	_, err = s.CM().Listen(cm.ListenConfig{Service: 2})
	require.ErrorIs(t, err, ual.ErrDisconnected)
	require.NoError(t, l.Close())
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// TestReplacedAdapter removes an adapter of the daemon and adds it again while the process is busy with another notice,
// so that it sees both changes at once. The process still reports a removal and an addition.
func TestReplacedAdapter(t *testing.T) {
	ports := simPorts(t, "10.0.0.1", "10.0.0.2")
	r := newRig(t, kproxy.Config{}, ports...)
	s, _ := r.open()
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	stop, err := s.Follow(al)
	require.NoError(t, err)
	client, err := al.Open(accesslayer.ClientConfig{Name: "test"})
	require.NoError(t, err)
	events := make(chan string, 16)
	first, second := r.hcas[0], r.hcas[1].Info().GUID
	_, err = client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Add: func(a *accesslayer.Adapter) (any, error) {
			if a.GUID() != second {
				events <- "add"
			}
			return nil, nil
		},
		Remove: func(a *accesslayer.Adapter, _ any) {
			if a.GUID() != second {
				events <- "remove"
			}
		}})
	require.NoError(t, err)
	require.Equal(t, "add", <-events)
	busy, proceed := make(chan struct{}), make(chan struct{})
	services := make(chan bool, 16)
	unwatch := s.MAD().Watch(func(p mads.Port, there bool) {
		if p.CA == second && !there {
			close(busy)
			<-proceed
		}
		if p.CA == first.Info().GUID {
			services <- there
		}
	})
	require.True(t, <-services)
	a, err := s.MAD().Register(mads.AgentConfig{Port: mads.Port{CA: first.Info().GUID, Num: 1},
		Class: mad.ClassPerformance, Version: 1})
	require.NoError(t, err)
	require.NoError(t, r.al.Deregister(second))
	<-busy
	require.NoError(t, r.al.Deregister(first.Info().GUID))
	require.NoError(t, r.al.Register(first))
	eventually(t, "the adapter's services", func() bool { return len(r.mads.Ports()) == 1 })
	close(proceed)
	require.Equal(t, []any{"remove", "add"}, []any{<-events, <-events})
	require.Equal(t, []any{false, true}, []any{<-services, <-services})
	require.ErrorIs(t, a.Send(&mads.Message{MAD: make([]byte, mad.Size)}), accesslayer.ErrClosed)
	_, err = s.MAD().Register(mads.AgentConfig{Port: mads.Port{CA: first.Info().GUID, Num: 1},
		Class: mad.ClassPerformance, Version: 1})
	require.NoError(t, err, "an agent of the adapter that was added again")
	unwatch()
	stop()
	require.NoError(t, al.Close())
}
