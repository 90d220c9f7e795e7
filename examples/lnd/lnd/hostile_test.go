package lnd

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference"
)

// A peer that does not keep to the protocol loses its connection, and nothing else happens: what was pending ends with an error, and the node
// goes on.
func TestHostilePeer(t *testing.T) {
	tests := []struct {
		name string
		edit func(c *conn, m *Message)
		is   error
		says string
	}{
		{"from another node", func(_ *conn, m *Message) { m.From++ }, ErrMessage, "from"},
		{"to another node", func(_ *conn, m *Message) { m.To++ }, ErrMessage, "to"},
		{"version 1", func(_ *conn, m *Message) { m.Version = version1 }, ErrMessage, "version 0x11"},
		{"from an earlier incarnation", func(_ *conn, m *Message) { m.FromStamp-- }, ErrStale, ""},
		{"to an earlier incarnation", func(_ *conn, m *Message) { m.ToStamp-- }, ErrStale, ""},
		{"credits out of nothing", func(_ *conn, m *Message) { m.Credits = 200 }, ErrMessage, "credits"},
		{"a request to connect", func(_ *conn, m *Message) { m.Type = ConnReq }, ErrMessage, "CONNREQ"},
		{"an unknown operation of LNet", func(_ *conn, m *Message) { m.Type, m.LNet.Type = Immediate, 9 }, ErrMessage, "operation 9"},
		{"less payload than it says", func(_ *conn, m *Message) { m.Type, m.LNet.Type, m.LNet.PayloadLen = Immediate, LNetPut, 1<<32-1 }, ErrMessage, "4294967295 bytes"},
		{"an answer to nothing", func(_ *conn, m *Message) { m.Type, m.Cookie = PutDone, 12345 }, ErrMessage, "no transfer"},
		{"the wrong answer", func(c *conn, m *Message) { m.Type, m.Cookie = GetDone, pending(c) }, ErrMessage, "no transfer"},
		{"a PUT_ACK for too much", func(c *conn, m *Message) { m.Type, m.Cookie, m.Desc.Frags = PutAck, pending(c), []Frag{{Len: 1 << 31}} }, ErrMessage, "asks for"},
		{"a PUT_ACK for nothing", func(c *conn, m *Message) { m.Type, m.Cookie, m.Desc.Frags = PutAck, pending(c), []Frag{{}} }, ErrMessage, "asks for"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, l := newRig(t), reference.NewDirectLink()
			slow := newBlocked()
			a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
			na, nb := a.node(Config{}), b.node(Config{OnPut: slow.handle})
			ctx := limit(t)
			c := must(na.connect(ctx, nb.nid))
			done := make(chan error)
			go func() { done <- c.put(ctx, Address{}, make([]byte, 100000)) }()
			<-slow.entered
			m := Message{Version: version2, Type: Noop, From: nb.nid, FromStamp: nb.stamp, To: na.nid, ToStamp: na.stamp}
			c.mu.Lock()
			tt.edit(c, &m)
			out := m.Append(c.bufs.received(0, 0), false)
			c.receive(ci.WC{ID: wrRecv, Length: uint32(len(out))})
			c.unlock()
			require.ErrorIs(t, context.Cause(c.ctx), tt.is)
			require.ErrorContains(t, context.Cause(c.ctx), tt.says)
			require.ErrorIs(t, <-done, tt.is)
			close(slow.leave)
			require.NoError(t, na.Put(ctx, b.addr, Address{}, make([]byte, 100000)), "over a new connection")
		})
	}
}

// pending is the cookie of the PUT that waits for PUT_ACK; mu is held.
func pending(c *conn) uint64 {
	for cookie := range c.ops {
		return cookie
	}
	return 0
}

// A sink in many pieces, which fast registration never makes but other peers may: one WRITE for each.
func TestWrites(t *testing.T) {
	m := &mapping{region: &region{}}
	m.ext.FastReg = ci.FastReg{IOVA: 1000, Length: 10000, Key: 7}
	to := Descriptor{Key: 9, Frags: []Frag{{Addr: 1 << 40, Len: 100}, {Addr: 5, Len: 0}, {Addr: 1 << 41, Len: 4000}, {Addr: 1 << 42, Len: 8000}}}
	require.EqualValues(t, 12100, to.Len())
	require.Equal(t, []ci.SendWR{
		{Op: ci.OpWrite, SGL: []ci.SGE{{Addr: 1000, Length: 100, LKey: 7}}, Remote: ci.Remote{Addr: 1 << 40, RKey: 9}},
		{Op: ci.OpWrite, SGL: []ci.SGE{{Addr: 1100, Length: 4000, LKey: 7}}, Remote: ci.Remote{Addr: 1 << 41, RKey: 9}},
		{Op: ci.OpWrite, SGL: []ci.SGE{{Addr: 5100, Length: 5900, LKey: 7}}, Remote: ci.Remote{Addr: 1 << 42, RKey: 9}},
	}, writes(m, to, 10000))
	require.Len(t, writes(m, to, 100), 1)
}

// A peer without fast registration describes its memory in as many pieces as it has pages.
func TestManyPieces(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	s := newStore()
	s.data[Address{}] = random(1, 1<<20)
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	na, nb := a.node(Config{}), b.node(s.config())
	ctx := limit(t)
	c := must(na.connect(ctx, nb.nid))
	into := make([]byte, 1<<20)
	m, err := na.pool.get(ctx, into, true, true)
	require.NoError(t, err)
	o := &op{cookie: na.nextCookie(), data: into, m: m, waits: GetDone}
	h := c.header(LNetGet, Address{})
	h.Length = 1 << 20
	d := Descriptor{Key: m.desc().Key}
	for i := range uint64(256) {
		d.Frags = append(d.Frags, Frag{Addr: m.desc().Frags[0].Addr + i*4096, Len: 4096})
	}
	n, err := c.run(ctx, o, &tx{class: reserving, msg: Message{Type: GetReq, LNet: h, Cookie: o.cookie, Desc: d}, chain: m.chain()})
	require.NoError(t, err)
	require.Equal(t, 1<<20, n)
	require.Equal(t, s.data[Address{}], into)
}
