package lnd

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

// This file has LNet, the layer above: operations on the memory of nodes, which their match entries name.

// lnetHeader is the header of LNet. It has 72 bytes.
type lnetHeader struct {
	To, From                       NID
	ToPID, FromPID, Op, PayloadLen uint32
	Handle                         handle // of a PUT, for its ACK; of a GET, for its REPLY
	Match                          uint64 // ACK, PUT, GET
	// PUT: 64 bits for the application, portal, offset. GET: portal, offset, length. ACK: length
	Words [4]uint32
}

// A handle names what an operation waits for, at the end that began it.
type handle struct {
	Stamp uint64
	Reply cookie
}

// Operations.
const (
	lnetAck   = 0 // the number of bytes of a PUT that the application has
	lnetPut   = 1
	lnetGet   = 2
	lnetReply = 3 // the data of a GET
)

const (
	lnetPID = 12345
	noStamp = 1<<64 - 1 // no ACK is requested
	enodata = 61        // errno of Linux
)

// A Target names memory of a node.
type Target struct {
	Portal  uint32
	Match   uint64
	Offset  uint32
	HdrData uint64 // for the peer's application, with a PUT
}

func (t Target) header(op uint32, n int) lnetHeader {
	h := lnetHeader{Op: op, Match: t.Match, ToPID: lnetPID, FromPID: lnetPID}
	if op == lnetPut {
		h.PayloadLen = uint32(n)
		h.Words = [4]uint32{uint32(t.HdrData), uint32(t.HdrData >> 32), t.Portal, t.Offset}
	} else {
		h.Words = [4]uint32{t.Portal, t.Offset, uint32(n)}
	}
	return h
}

// A Request is an operation of a peer.
type Request struct {
	Target
	From NID
	Len  int // bytes that the peer puts, or that it gets at most
}

// requestOf returns the operation in a header.
func requestOf(h *lnetHeader) Request {
	r := Request{From: h.From, Target: Target{Match: h.Match}}
	if w := h.Words; h.Op == lnetPut {
		r.HdrData, r.Portal, r.Offset = uint64(w[1])<<32|uint64(w[0]), w[2], w[3]
		r.Len = int(min(h.PayloadLen, MaxTransfer))
	} else {
		r.Portal, r.Offset, r.Len = w[0], w[1], int(min(w[2], MaxTransfer))
	}
	return r
}

// An Entry makes memory of this node available on a portal. It matches a request with the same portal whose match bits
// are Match, except for those that are set in Ignore, from the node From. The functions are called for a connection one
// at a time, and for several concurrently. They must not block, because the connection waits for them.
type Entry struct {
	Portal        uint32
	Match, Ignore uint64
	From          NID // 0: any node
	// OnPut returns the memory for the bytes of a PUT. The shorter one of both ends' memory limits the transfer. An
	// empty slice refuses it. done is called once, when the data have arrived or the transfer has failed. Without
	// OnPut, the entry matches no PUT.
	OnPut func(r Request) (into []byte, done func(n int, err error))
	// OnGet returns the data for a GET, which must not change afterwards. An empty slice refuses it. Without OnGet, the
	// entry matches no GET.
	OnGet func(r Request) []byte
}

func (e *Entry) matches(op uint32, r *Request) bool {
	has := op == lnetPut && e.OnPut != nil || op == lnetGet && e.OnGet != nil
	return has && e.Portal == r.Portal && (e.Match^r.Match)&^e.Ignore == 0 && (e.From == 0 || e.From == r.From)
}

// Attach adds a match entry behind the others, and returns a function that removes it. The first entry that matches a
// request has it. A request without one is dropped, as in LNet: its sender gets no reply if data are in the message,
// and a refusal otherwise. Portal 0 is the node's own.
func (n *Node) Attach(e Entry) (detach func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &e
	n.entries = append(slices.Clone(n.entries), p)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.entries = slices.DeleteFunc(slices.Clone(n.entries), func(x *Entry) bool { return x == p })
	}
}

// match returns the entry for a request, or nil.
func (n *Node) match(op uint32, r *Request) *Entry {
	n.mu.Lock()
	entries := n.entries
	n.mu.Unlock()
	for _, e := range entries {
		if e.matches(op, r) {
			return e
		}
	}
	n.count("dropped: no match entry")
	return nil
}

// A reply is an operation of this node that waits for its ACK or REPLY, which may come over any connection of the peer.
type reply struct {
	from   NID
	op     uint32 // lnetAck or lnetReply
	handle handle
	into   []byte // for a REPLY
	n      int    // bytes that the peer took, or that it sent
	done   chan struct{}
}

// await adds a reply to those that the node waits for.
func (n *Node) await(from NID, op uint32, into []byte) *reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastReply++
	r := &reply{from: from, op: op, into: into, handle: handle{n.stamp, n.lastReply}, done: make(chan struct{})}
	n.replies[n.lastReply] = r
	return r
}

// forget ends the wait for a reply. Its memory is not written afterwards.
func (n *Node) forget(r *reply) {
	n.mu.Lock()
	delete(n.replies, r.handle.Reply)
	n.mu.Unlock()
}

// replied handles an ACK or a REPLY. One that nobody waits for is dropped: its operation may have been canceled.
func (n *Node) replied(from NID, h *lnetHeader, payload []byte) {
	n.mu.Lock()
	r := n.replies[h.Handle.Reply]
	known := r != nil && r.from == from && r.op == h.Op && r.handle == h.Handle
	if known {
		r.n = copy(r.into, payload)
		if h.Op == lnetAck {
			r.n = int(min(h.Words[0], MaxTransfer))
		}
		delete(n.replies, r.handle.Reply)
		close(r.done)
	}
	n.mu.Unlock()
	if !known {
		n.count("dropped: no operation")
	}
}

// Ping's target, which Lustre's nodes have, too.
const (
	pingPortal = 0
	pingMatch  = 1 << 63
	pingMagic  = 0x70696e67
	pingMost   = 16 // interfaces that this node asks for
	pingHeader = 16
	pingEach   = 16
)

// Features of nodes, as in PingInfo.
const (
	featStatus    = 1 << 1 // of interfaces
	featNoRoute   = 1 << 2 // routing is disabled
	featMultiRail = 1 << 3
	featDiscovery = 1 << 4
)

// StatusUp is the Status of an interface that works.
const StatusUp = 0x15aac0de

// PingInfo is what a node says about itself. The first interface is 0@lo, whose status is a sequence number.
type PingInfo struct {
	Features, PID uint32
	NIs           []NI
}

// An NI is an interface of a node.
type NI struct {
	NID    NID
	Status uint32
	_      uint32 // of larger NIDs
}

// info returns what this node says about itself.
func (n *Node) info() PingInfo {
	return PingInfo{Features: featStatus | featNoRoute | featMultiRail | featDiscovery, PID: lnetPID,
		NIs: []NI{{NID: loopback << 48, Status: 1}, {NID: n.nid, Status: StatusUp}}}
}

func (p PingInfo) encode() (b []byte) {
	for _, v := range []uint32{pingMagic, p.Features, p.PID, uint32(len(p.NIs))} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b, _ = binary.Append(b, binary.LittleEndian, p.NIs) // no error: the size is fixed
	return b
}

// parsePing decodes what a node says about itself, in either byte order. Errors: ErrMessage.
func parsePing(b []byte) (p PingInfo, err error) {
	order := orderOf(b, pingMagic)
	if order == nil || len(b) < pingHeader {
		return p, malformed("%d bytes are no ping info", len(b))
	}
	p.Features, p.PID = order.Uint32(b[4:]), order.Uint32(b[8:])
	// A node has more interfaces than the request had room for, or more room than interfaces.
	p.NIs = make([]NI, min(uint64(order.Uint32(b[12:])), uint64(len(b)-pingHeader)/pingEach))
	_, err = binary.Decode(b[pingHeader:], order, p.NIs)
	return p, err
}

// pingEntry is the entry of portal 0: it answers pings, and takes what peers push when they discover this node.
func (n *Node) pingEntry() Entry {
	return Entry{Portal: pingPortal, Match: pingMatch,
		OnGet: func(r Request) []byte {
			n.count("pings answered")
			b := n.info().encode()
			return b[:min(len(b), r.Len)]
		},
		OnPut: func(r Request) ([]byte, func(int, error)) {
			b := make([]byte, min(r.Len, pingHeader+pingMost*pingEach))
			return b, func(k int, err error) {
				var p PingInfo
				if err == nil {
					p, err = parsePing(b[:k])
				}
				if err == nil {
					n.pushed(r.From, p)
				}
			}
		}}
}

// Ping returns what a node says about itself and its interfaces. Errors: those of Get; ErrMessage.
func (n *Node) Ping(ctx context.Context, to NID) (PingInfo, error) {
	b := make([]byte, pingHeader+pingEach*pingMost)
	k, err := n.Get(ctx, to, Target{Portal: pingPortal, Match: pingMatch}, b)
	if err != nil {
		return PingInfo{}, err
	}
	p, err := parsePing(b[:k])
	if err != nil {
		err = fmt.Errorf("lnd: the ping of %v: %w", to, err)
	}
	return p, err
}

// Discover pings a node and, if it takes part in discovery, tells it which interfaces this node has. Errors: those of
// Ping and Put.
func (n *Node) Discover(ctx context.Context, to NID) (PingInfo, error) {
	p, err := n.Ping(ctx, to)
	if err == nil && p.Features&featDiscovery != 0 {
		_, err = n.Put(ctx, to, Target{Portal: pingPortal, Match: pingMatch}, n.info().encode())
	}
	return p, err
}
