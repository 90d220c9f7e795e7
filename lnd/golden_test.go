package lnd

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

//go:embed testdata/lustre.txt
var lustre string

// A recorded message is one of a node with Lustre.
type recorded struct {
	from netip.Addr
	b    []byte
	m    message
}

// recording returns the recorded messages in order.
func recording(t testing.TB) (all []recorded) {
	for line := range strings.Lines(lustre) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		from, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		r := recorded{from: netip.MustParseAddr(from)}
		var err error
		r.b, err = hex.DecodeString(text)
		require.NoError(t, err)
		r.m, err = parse(r.b)
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

// The codec decodes and encodes the messages of Lustre without a difference.
func TestRecordedMessages(t *testing.T) {
	var text []string
	for _, r := range recording(t) {
		require.Equal(t, r.b, r.m.append(nil, plain))
		text = append(text, r.m.Type.String())
	}
	require.Equal(t, "CONNREQ CONNACK"+strings.Repeat(" IMMEDIATE", 10), strings.Join(text, " "))
}

// withoutCredits returns a copy of a message without the credits that it returns. When they return depends on time.
func withoutCredits(b []byte) []byte {
	b = bytes.Clone(b)
	b[7] = 0
	return b
}

// newOffline returns a connection that is not one, from a node with a stamp to another one.
func newOffline(t testing.TB, self, peer recorded, p params) *conn {
	n, err := newNode(Config{Addr: self.from}, self.m.FromStamp)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	c := n.newConn(peer.m.From, version2, p)
	c.agree(peer.m.FromStamp, p)
	c.ctx, c.cancel = context.WithCancelCause(n.ctx)
	n.established(c, "accepted")
	return c
}

// A node in the place of each of the two nodes says what that one has said: as active and as passive end of the
// connection, and as initiator and target of GET and PUT.
func TestRecordedExchange(t *testing.T) {
	all := recording(t)
	req, ack := all[0], all[1]
	most := params{Depth: 8, Frags: maxFrags, MsgSize: msgSize}

	// The passive end.
	m, why, err := checkRequest(req.b, ack.m.From, ack.m.FromStamp, most)
	require.NoError(t, err)
	require.Zero(t, why)
	b := message{header: header{Type: connAck, From: ack.m.From, FromStamp: ack.m.FromStamp, To: m.From,
		ToStamp: m.FromStamp}, params: m.params}.append(nil, plain)
	require.Equal(t, ack.b, b)
	// The active end.
	first := message{header: header{Type: connReq, From: req.m.From, FromStamp: req.m.FromStamp, To: ack.m.From},
		params: most}
	require.Equal(t, req.b, first.append(nil, plain))
	m, err = checkReply(ack.b, &first, version2)
	require.NoError(t, err)
	require.Equal(t, most, m.params)

	for i, self := range []recorded{req, ack} {
		c := newOffline(t, self, []recorded{req, ack}[1-i], most)
		var waiting *reply // of an operation of this node
		for _, r := range all[2:] {
			if r.from != self.from {
				got, err := c.expect(r.b)
				require.NoError(t, err)
				require.NoError(t, c.received(&got))
				if waiting != nil && got.lnet.Op == waiting.op {
					<-waiting.done
					if got.lnet.Op == lnetReply {
						up := []NI{{NID: loopback << 48, Status: 1}, {NID: c.peer, Status: StatusUp}}
						info := must(parsePing(waiting.into[:waiting.n]))
						require.Equal(t, up, info.NIs)
					} else {
						require.Equal(t, 48, waiting.n)
					}
					waiting = nil
				}
				continue
			}
			// An operation of this node is begun here; a reply is queued.
			ping := Target{Portal: pingPortal, Match: pingMatch}
			switch r.m.lnet.Op {
			case lnetGet:
				h := ping.header(lnetGet, int(r.m.lnet.Words[2]))
				waiting = c.awaitAs(r.m.lnet.Handle, lnetReply, make([]byte, h.Words[2]))
				h.Handle = r.m.lnet.Handle
				c.push(nil, nil, message{header: header{Type: immediate}, lnet: h})
			case lnetPut:
				info := c.n.info().encode()
				h := ping.header(lnetPut, len(info))
				waiting = c.awaitAs(r.m.lnet.Handle, lnetAck, nil)
				h.Handle = r.m.lnet.Handle
				c.push(nil, nil, message{header: header{Type: immediate}, lnet: h, payload: info})
			}
			s := c.flow.next()
			require.NotNil(t, s, "%v: Lustre has sent %+v", self.from, r.m.lnet)
			require.Equal(t, withoutCredits(r.b), withoutCredits(c.encode(nil, s)))
			c.flow.sent(s)
		}
		require.Nil(t, waiting)
		require.Nil(t, c.flow.next())
		require.Equal(t, PingInfo{Features: 0x1e, PID: 12345, NIs: []NI{{NID: loopback << 48, Status: 1},
			{NID: c.peer, Status: StatusUp}}}, *c.n.peer(c.peer).info, "what the peer has pushed")
	}
}

// awaitAs is await with the handle of a recorded operation.
func (c *conn) awaitAs(h handle, op uint32, into []byte) *reply {
	r := &reply{from: c.peer, op: op, into: into, handle: h, done: make(chan struct{})}
	c.n.mu.Lock()
	c.n.replies[h.Reply] = r
	c.n.mu.Unlock()
	return r
}

// FuzzConn has a connection receive any sequence of messages, with the header of its peer. It ends with an error or
// goes on, and what it holds is bounded.
func FuzzConn(f *testing.F) {
	all := recording(f)
	for _, r := range all[2:] {
		f.Add(append([]byte{byte(r.m.Type), 0, byte(len(r.b) - headerSize), 0}, r.b[headerSize:]...))
	}
	var several []byte
	for _, g := range golden() {
		b := withoutCredits(unhex(g.bytes))
		several = append(append(several, b[6], 0, byte(len(b)-headerSize), 0), b[headerSize:]...)
	}
	f.Add(several)
	f.Fuzz(func(t *testing.T, script []byte) {
		c := newOffline(t, all[1], all[0], params{Depth: 8, Frags: maxFrags, MsgSize: msgSize})
		c.mapped = func(b []byte, _ ci.Access) (*mapping, error) {
			return &mapping{Region: ci.Region{Length: uint64(len(b))}, unmap: func() error { return nil }}, nil
		}
		c.n.Attach(Entry{Portal: portal, Ignore: 1<<64 - 1,
			OnPut: func(r Request) ([]byte, func(int, error)) {
				return make([]byte, min(r.Len, 100)), func(int, error) {}
			},
			OnGet: func(r Request) []byte { return make([]byte, min(r.Len, 100)) }})
		// Each message is: its type, credits, length of the body in two bytes, body.
		for err := error(nil); len(script) >= 4 && err == nil; {
			body := script[4:min(len(script), 4+int(script[2])+int(script[3]&0xf)<<8)]
			b, _ := binary.Append(nil, binary.LittleEndian, header{magic, version2, msgType(script[0]), script[1],
				uint32(headerSize + len(body)), 0, c.peer, c.stamp, c.n.nid, c.n.stamp})
			script = script[4+len(body):]
			var m message
			if m, err = c.expect(append(b, body...)); err == nil {
				err = c.received(&m)
			}
			for s := c.flow.next(); s != nil && err == nil; s = c.flow.next() {
				require.LessOrEqual(t, len(c.encode(nil, s)), msgSize)
				if s.op != nil {
					s.op.posted = true
				}
				err = c.sent(s)
			}
			require.LessOrEqual(t, len(c.ops), int(c.params.Depth))
			require.True(t, err != nil || c.flow.credits <= c.flow.depth)
		}
		for _, o := range c.ops {
			o.end(0, ErrMessage)
		}
	})
}
