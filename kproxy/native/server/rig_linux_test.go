package server_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/link/sim"
	"ciddk/rvt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a daemon in this process, with one adapter.
type rig struct {
	t      testing.TB
	al     *accesslayer.AL
	core   *kproxy.Server
	server *server.Server
	hca    *reference.HCA
}

func newRig(t testing.TB, cfg kproxy.Config) *rig { return newRigAt(t, cfg, clock.Real()) }

// newRigAt returns a rig whose server has another clock.
func newRigAt(t testing.TB, cfg kproxy.Config, clk clock.Clock) *rig {
	return newRigOf(t, cfg, clk, func(h ci.HCA) ci.HCA { return h })
}

// newRigOf returns a rig whose adapter is behind a driver.
func newRigOf(t testing.TB, cfg kproxy.Config, clk clock.Clock, driver func(ci.HCA) ci.HCA) *rig {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	require.NoError(t, err)
	h, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	require.NoError(t, al.Register(driver(h)))
	cfg.AL = al
	core, err := kproxy.New(cfg)
	require.NoError(t, err)
	r := &rig{t: t, al: al, core: core, server: server.New(core, clk), hca: h}
	t.Cleanup(func() {
		r.server.Close()
		require.NoError(t, core.Close())
		require.NoError(t, al.Close())
		require.NoError(t, h.Close())
	})
	return r
}

// live returns the objects of the driver that exist, without the CA that the access layer has open.
func (r *rig) live() map[string]int {
	list := map[string]int{}
	for k, n := range r.hca.Live() {
		if n > 0 && k != "ca" {
			list[k] = n
		}
	}
	return list
}

// gone waits until no client and no object is left.
func (r *rig) gone() {
	require.Eventually(r.t, func() bool { return len(r.core.Sessions()) == 0 && len(r.live()) == 0 },
		10*time.Second, time.Millisecond)
}

// client speaks the protocol without package ual.
type client struct {
	r    *rig
	c    *native.Conn
	buf  []byte
	next uint64
}

// raw returns a connection without Hello.
func (r *rig) raw() *client {
	a, b, err := native.Pair()
	require.NoError(r.t, err)
	r.server.ServeConn(a)
	c := &client{r: r, c: b, buf: make([]byte, schema.MaxMessage)}
	r.t.Cleanup(func() { c.c.Close() })
	return c
}

// client returns a connection after Hello.
func (r *rig) client() *client {
	c := r.raw()
	c.hello()
	return c
}

// hello sends Hello.
func (c *client) hello() {
	require.NoError(c.r.t, c.do(schema.CmdHello, &schema.Hello{Version: schema.Version, PointerBits: 64, Name: "test"},
		&schema.HelloReply{}))
}

// send sends a request.
func (c *client) send(cmd schema.Command, body []byte) {
	c.next++
	m := append(native.Start(nil), body...)
	require.NoError(c.r.t, native.Finish(m, native.Header{Command: cmd, ID: c.next}))
	require.NoError(c.r.t, c.c.Send(m, nil))
}

// recv receives a reply.
func (c *client) recv() (native.Header, []byte, error) {
	n, files, err := c.c.Recv(c.buf)
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		return native.Header{}, nil, err
	}
	return native.ParseHeader(c.buf[:n])
}

// do executes a request and fills reply.
func (c *client) do(cmd schema.Command, request, reply any) error {
	c.send(cmd, native.Append(nil, request))
	return c.reply(reply)
}

func (c *client) reply(reply any) error {
	h, body, err := c.recv()
	if err != nil {
		return err
	}
	if h.Status != 0 {
		var e schema.ErrorReply
		require.NoError(c.r.t, native.Parse(body, &e))
		return &ci.Error{Verb: e.Verb, Status: h.Status, Detail: e.Detail}
	}
	return native.Parse(body, reply)
}

// objects are one object of several kinds.
type objects struct{ queue, ca, pd, cq, qp schema.Handle }

// create creates one object of several kinds.
func (c *client) create() (o objects) {
	t := c.r.t
	var created schema.Created
	require.NoError(t, c.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &created))
	o.queue = created.Handle
	var list schema.ListHCAsReply
	require.NoError(t, c.do(schema.CmdListHCAs, &schema.None{}, &list))
	require.Len(t, list.HCAs, 1)
	require.NoError(t, c.do(schema.CmdOpenCA, &schema.OpenCA{GUID: list.HCAs[0].GUID, Async: o.queue}, &created))
	o.ca = created.Handle
	require.NoError(t, c.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: o.ca}, &created))
	o.pd = created.Handle
	var cq schema.CreateCQReply
	require.NoError(t, c.do(schema.CmdCreateCQ, &schema.CreateCQ{PD: o.pd, Size: 16, Token: 1, Completions: o.queue},
		&cq))
	o.cq = cq.Handle
	var qp schema.CreateQPReply
	require.NoError(t, c.do(schema.CmdCreateQP, &schema.CreateQP{PD: o.pd, SendCQ: o.cq, RecvCQ: o.cq, Token: 2,
		Caps: schema.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}}, &qp))
	o.qp = qp.Handle
	return o
}
