package nldev

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// client is a client of the session core, whose objects netlink lists.
type client struct {
	t       testing.TB
	s       *kproxy.Session
	async   schema.Handle
	events  *os.File
	handles []schema.Handle // in the order of their creation: CA, PD, CQ, QP, SRQ, and more QPs
}

func (r *rig) client() *client {
	s, err := r.core.Open(kproxy.Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, "test")
	require.NoError(r.t, err)
	c := &client{t: r.t, s: s}
	c.async, c.events, err = s.NewEventQueue(func(b []byte, _ *schema.Event) []byte { return b })
	require.NoError(r.t, err)
	return c
}

func (c *client) do(cmd schema.Command, body any) any {
	result, err := c.s.Do(&kproxy.Call{Command: cmd, Body: body})
	require.NoError(c.t, err)
	return result.Body
}

// more creates the next object.
func (c *client) more(guid ci.GUID) {
	const most = 40
	h, n := c.handles, len(c.handles)
	add := func(x schema.Handle) { c.handles = append(c.handles, x) }
	switch {
	case n == 0:
		add(c.do(schema.CmdOpenCA, &schema.OpenCA{GUID: guid, Async: c.async}).(*schema.Created).Handle)
	case n == 1:
		add(c.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: h[0]}).(*schema.Created).Handle)
	case n == 2:
		add(c.do(schema.CmdCreateCQ, &schema.CreateCQ{PD: h[1], Size: 10}).(*schema.CreateCQReply).Handle)
	case n == 4:
		add(c.do(schema.CmdCreateSRQ, &schema.CreateSRQ{PD: h[1], Async: c.async,
			Attr: schema.SRQAttr{MaxWR: 4, MaxSGE: 1}}).(*schema.Created).Handle)
	case n < most:
		add(c.do(schema.CmdCreateQP, &schema.CreateQP{PD: h[1], SendCQ: h[2], RecvCQ: h[2], Async: c.async,
			Type: []ci.QPType{ci.RC, ci.UC, ci.UD}[n%3],
			Caps: schema.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}).(*schema.CreateQPReply).Handle)
	}
}

// less destroys the latest object.
func (c *client) less() {
	if n := len(c.handles); n > 0 {
		c.do(schema.CmdDestroy, &schema.Object{Handle: c.handles[n-1]})
		c.handles = c.handles[:n-1]
	}
}

func (c *client) close() {
	require.NoError(c.t, c.s.Close())
	c.events.Close()
}

// requests returns the requests of a sequence. A nil one creates an object.
func requests() [][]byte {
	port := index(0)
	port.u32(attrPortIndex, 1)
	file := index(0)
	file.text(attrChardevType, "uverbs")
	list := [][]byte{nil, request(cmdGet, flagAck, index(0)), request(cmdPortGet, flagAck, port),
		request(cmdGetChardev, flagAck, file), request(cmdStatGet, 0, port), request(cmdSet, flagAck, index(0))}
	for _, command := range []uint16{cmdGet, cmdPortGet, cmdStatGet, cmdResGet, cmdSysGet} {
		list = append(list, request(command, flagDump, nil))
	}
	for _, command := range []uint16{cmdResQPGet, cmdResCQGet, cmdResMRGet, cmdResPDGet, cmdResCTXGet, cmdResSRQGet} {
		list = append(list, request(command, flagDump, index(0)), request(command, flagAck, index(0)))
	}
	return list
}

// lists are the attributes of replies that contain attributes.
var lists = map[uint16]bool{attrSummary: true, attrSummaryEntry: true, attrHWCounters: true, attrHWCounter: true}

func init() {
	for _, t := range tables {
		lists[t.list], lists[t.entry] = true, true
	}
}

// checkAttributes checks that attributes fill b.
func checkAttributes(t *testing.T, b []byte) {
	for len(b) > 0 {
		require.GreaterOrEqual(t, len(b), attrSize)
		n, typ := int(ne.Uint16(b)), ne.Uint16(b[2:])
		require.GreaterOrEqual(t, n, attrSize)
		require.LessOrEqual(t, n, len(b))
		require.Equal(t, lists[typ&attrMask], typ&nested != 0, "type %d", typ&attrMask)
		if typ&nested != 0 {
			checkAttributes(t, b[attrSize:n])
		}
		b = b[min(len(b), (n+3)&^3):]
	}
}

// received is the size of the buffer into which programs receive a datagram.
const received = 4096

// checkReplies checks the replies to a datagram: each is one message that belongs to a request of the datagram, has
// whole attributes, and fits the buffers of programs. A list has an end.
func checkReplies(t *testing.T, datagram []byte, replies [][]byte) {
	var seqs []uint32
	for {
		h, rest, ok := next(datagram)
		if !ok {
			break
		}
		seqs, datagram = append(seqs, h.seq), rest
	}
	isOpen := false
	for _, b := range replies {
		require.LessOrEqual(t, len(b), received)
		h, rest, ok := next(b)
		require.True(t, ok)
		require.Empty(t, rest)
		require.Contains(t, seqs, h.seq)
		switch h.typ {
		case typeDone:
			require.Zero(t, ne.Uint32(h.body))
			isOpen = false
		case typeError:
			require.False(t, isOpen)
			errno := -int32(ne.Uint32(h.body))
			require.True(t, errno >= 0 && errno < received, "%d", errno)
		default:
			isOpen = h.flags&flagMulti != 0
			checkAttributes(t, h.body)
		}
	}
	require.False(t, isOpen, "a list without an end")
}

// values replace bytes of a request: lengths, types and numbers at the limits of what requests may have.
var values = []uint32{0, 1, 2, 3, 4, 8, 15, 16, 17, 255, 4096, 1 << 14, 1 << 15, 1<<16 - 1, 1 << 31, 1<<32 - 1}

// FuzzSequence executes sequences of requests that have the shapes of valid ones, while a client has more and less
// objects. Each takes four bytes of the input: the request; the half-word that is replaced, or none; its value; and
// what happens besides: bit 0 destroys an object before, bit 1 adds the next request to the same datagram, the others
// are bytes by which the datagram is shorter. Replies are always whole, and no request changes anything.
func FuzzSequence(f *testing.F) {
	const keep = 255
	list := requests()
	var all, pairs []byte
	for i := range list {
		all = append(all, 0, keep, 0, 0, byte(i), keep, 0, 0)
		pairs = append(pairs, 0, keep, 0, 0, byte(i), keep, 0, 2)
	}
	f.Add(all)
	f.Add(pairs)
	f.Add(append(make([]byte, 4*40), all...))
	f.Add([]byte{0, 0, 0, 0, 7, 8, 5, 0, 10, 9, 1, 1, 11, 0, 6, 12, 15, 10, 2, 3, 16, 2, 13, 0})
	r := newRig(f)
	other := r.client()
	for range 6 {
		other.more(r.dev.GUID)
	}
	before := r.core.Resources(r.dev.GUID)
	f.Fuzz(func(t *testing.T, input []byte) {
		r.t = t
		c := r.client()
		var datagram []byte
		for n := 0; len(input) >= 4 && n < 100; n++ {
			which, half, bits := int(input[0])%len(list), int(input[1]), input[3]
			value := values[int(input[2])%len(values)]
			input = input[4:]
			if bits&1 != 0 {
				c.less()
			}
			if which == 0 {
				c.more(r.dev.GUID)
				continue
			}
			q := slices.Clone(list[which])
			if 2*half+4 <= len(q) {
				ne.PutUint32(q[2*half:], value)
			}
			if datagram = append(datagram, q...); bits&2 != 0 && len(input) >= 4 {
				continue
			}
			datagram = datagram[:max(0, len(datagram)-int(bits>>2))]
			resources := len(r.core.Resources(r.dev.GUID))
			checkReplies(t, datagram, r.datagram(datagram))
			require.Len(t, r.core.Resources(r.dev.GUID), resources)
			datagram = nil
		}
		c.close()
		assert.Equal(t, before, r.core.Resources(r.dev.GUID))
		assert.Len(t, r.core.Status().Clients, 1)
	})
	other.close()
}
