package rdmacm

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
)

// ConnConfig describes a Conn. The zero value is ready for use.
type ConnConfig struct {
	// MaxMessage is the length in bytes of the longest message that this end sends and receives; the peer's may differ.
	// 0: 4096. At most 1 GiB. Read and Write transfer pieces of that length.
	MaxMessage int
	// Depth is the number of received messages that may wait for the application, and the number of work requests that
	// may be in progress. 0: 32. At most 8192. A Conn allocates Depth+2 receive buffers and Depth send buffers of
	// MaxMessage bytes, and no other memory that the peer can fill.
	Depth int
	// Plain disables the protocol between two Conns, for peers that are programs of other libraries: messages are SENDs
	// without immediate data, and all private data is the application's. Then the peer's receive buffers are not
	// counted: see Conn.
	Plain bool
	// KeepAlive, with Enable, ends the connection when the peer vanishes: see QPConfig.KeepAlive.
	KeepAlive net.KeepAliveConfig
	// Linger bounds how long Close waits until the peer has acknowledged what was sent. 0: 5 s. Negative: Close does
	// not wait.
	Linger time.Duration
	// Private goes to the peer's application with the request: up to ConnectLen-12 bytes, with Plain ConnectLen.
	Private []byte
}

// errNoCredits ends a Conn whose peer announced that it counts messages, and sent one without the count.
var errNoCredits = errors.New("the peer sent a message without immediate data")

const (
	defaultMessage = 4096
	maxMessage     = 1 << 30
	defaultWindow  = 32
	maxDepth       = 8192
	defaultLinger  = 5 * time.Second
)

// rnrTimer is the time after which a peer sends a message again for which no receive was posted: 0.64 ms. Only plain
// Conns use it.
const rnrTimer = 12

func (c *ConnConfig) complete(verb string) error {
	switch {
	case c.MaxMessage < 0 || c.MaxMessage > maxMessage:
		return failure.Invalid(verb, "MaxMessage is %d, want 1 to %d, or 0 for %d", c.MaxMessage, maxMessage,
			defaultMessage)
	case c.Depth < 0 || c.Depth > maxDepth:
		return failure.Invalid(verb, "Depth is %d, want 1 to %d, or 0 for %d", c.Depth, maxDepth, defaultWindow)
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = defaultMessage
	}
	if c.Depth == 0 {
		c.Depth = defaultWindow
	}
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	return nil
}

// private returns the private data of a request or reply.
func (c *ConnConfig) private(data []byte, plain bool) []byte {
	if plain {
		return data
	}
	return append(hello{depth: uint32(c.Depth), size: uint32(c.MaxMessage)}.encode(), data...)
}

// Conn is a reliable connection that carries messages in both directions and accesses the peer's memory. Dialer and
// Request.Accept return it. All methods may be called concurrently; messages of one goroutine arrive in order.
//
// # Flow control
//
// Each end counts the other end's receive buffers. Send waits while the peer has no buffer for another message, so a
// receive is posted for every message. If the reader stops, the sender waits after ConnConfig.Depth messages; other
// operations continue. With ConnConfig.Plain there is no count: the peer's HCA rejects a message for which no receive
// is posted (RNR NAK), and this end's HCA repeats it until there is one. Work requests behind it wait.
//
// A Conn has no goroutine. Its calls process what has arrived: an end that calls no method does not return receive
// buffers to the peer.
//
// # The end
//
// When the connection is over, all calls return an error for which errors.Is(err, ErrEnded) is true, besides its cause.
// Recv returns the messages that arrived before. Done is closed at the same time.
//
// # Other verbs
//
// Do executes any work request. ID returns the underlying ID with its QP, addresses, path and events. The Conn owns its
// CQ and its receive queue. Programs that post and poll by themselves use package cmid, or Request.ID instead of
// Request.Accept.
type Conn struct {
	e     engine
	id    *cmid.ID
	cfg   ConnConfig
	plain bool
	reply []byte

	peerMax int     // length in bytes of the longest message that the peer receives
	credits credits // guarded by e.mu
	grantWR [1]ci.SendWR

	granting sync.Mutex // guards grantWR

	closing  sync.Once
	closeErr error
}

// newConn creates the QP and the buffers of a Conn for an ID that has an address. connected completes it.
func newConn(id *cmid.ID, cfg ConnConfig, plain bool) (*Conn, error) {
	c := &Conn{id: id, cfg: cfg, plain: plain, peerMax: maxMessage}
	c.e.accept = c.accept
	sizes := engineConfig{recvCount: cfg.Depth, recvSize: cfg.MaxMessage,
		sendCount: cfg.Depth, sendSize: max(cfg.MaxMessage, atomicLen),
		qp: cmid.QPConfig{KeepAlive: cfg.KeepAlive, OnEvent: c.qpEvent}}
	if !plain {
		sizes.recvCount += creditMessages
		sizes.creditPlaces = creditPlaces
		c.e.onPlace = c.grant
	}
	// Completions before connected are not lost: only calls process them, and the caller has no Conn yet.
	if err := c.e.start(id, sizes); err != nil {
		return nil, err
	}
	return c, nil
}

// connected completes a Conn with the limits that the peer has sent.
func (c *Conn) connected(peer hello) {
	if c.plain {
		return
	}
	c.credits = newCredits(uint32(c.cfg.Depth), peer.depth)
	c.peerMax = int(peer.size)
}

// qpEvent receives asynchronous events of the QP. An error without a completion ends the connection, too.
func (c *Conn) qpEvent(_ *accesslayer.QP, e ci.Event) {
	switch e.Type {
	case ci.EventQPFatal, ci.EventWQReqError, ci.EventWQAccessError:
		c.e.fail(errors.New("event of the QP: " + e.Type.String()))
	}
}

// accept processes a successful receive; e.mu is held.
func (c *Conn) accept(wc *ci.WC) (bool, error) {
	switch {
	case c.plain:
		return true, nil
	case wc.Flags&ci.WCImmediate == 0:
		return false, errNoCredits
	}
	before := c.credits.limit
	isMessage := c.credits.receive(wc.Imm)
	if c.credits.limit != before {
		c.e.senders.wake()
	}
	return isMessage, nil
}

// fail returns an error of an operation as a *net.OpError.
func (c *Conn) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return failure.Op(op, c.id.LocalAddr(), c.id.RemoteAddr(), err)
}

// Send sends a message of up to MaxMessage bytes. It waits for a free buffer here and at the peer, and returns when the
// message is in the send queue; the caller may change b then. The peer's application may not have read it: Flush waits
// for the acknowledgement of the peer's HCA. Errors: InvalidParameter (too long for this end or for the peer), the
// context's (nothing was sent), ErrEnded.
func (c *Conn) Send(ctx context.Context, b []byte) error { return c.fail("send", c.send(ctx, b)) }

// SendInvalidate is Send, and the message invalidates a key of the peer when it arrives: that of a fast registration or
// of a memory window of type 2. Without such a key, the connection ends. Errors: those of Send; InvalidParameter
// (the Conn is not plain, because its messages have immediate data); Unsupported (the HCA lacks ci.CapSendInvalidate).
func (c *Conn) SendInvalidate(ctx context.Context, b []byte, key ci.Key) error {
	if !c.plain {
		return c.fail("send", failure.Invalid("Conn.SendInvalidate",
			"the message has immediate data, which excludes a key (set ConnConfig.Plain)"))
	}
	return c.fail("send", c.sendAs(ctx, b, ci.SendWR{Op: ci.OpSend, Flags: ci.SendInvalidate, Inv: key}))
}

func (c *Conn) send(ctx context.Context, b []byte) error {
	return c.sendAs(ctx, b, ci.SendWR{Op: ci.OpSend})
}

// sendAs sends a message with a work request that lacks the data and the credits.
func (c *Conn) sendAs(ctx context.Context, b []byte, wr ci.SendWR) error {
	if most := c.MaxMessage(); len(b) > most {
		return failure.Invalid("Conn.Send",
			"the message has %d bytes, want at most %d (ConnConfig.MaxMessage of both ends)", len(b), most)
	}
	i, imm, err := c.acquireMessage(ctx)
	if err != nil {
		return err
	}
	if !c.plain {
		wr.Imm, wr.Flags = imm, ci.SendImmediate
	}
	copy(c.e.sends[i].data, b)
	if err := c.e.post(i, wr, len(b)); err != nil {
		c.e.mu.Lock()
		c.credits.untake()
		c.e.mu.Unlock()
		return err
	}
	return nil
}

// acquireMessage waits for a send buffer and for a buffer at the peer. It returns the immediate data of the message.
func (c *Conn) acquireMessage(ctx context.Context) (i int, imm uint32, err error) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.plain {
		i, err = c.e.acquireLocked(ctx, false, nil)
		return i, 0, err
	}
	if i, err = c.e.acquireLocked(ctx, false, &c.credits); err != nil {
		return 0, 0, err
	}
	return i, c.credits.take(), nil
}

// MaxMessage returns the length of the longest message that Send accepts: the smaller limit of both ends, or this end's
// if the peer's is not known.
func (c *Conn) MaxMessage() int { return min(c.cfg.MaxMessage, c.peerMax) }

// Recv waits for the next message and returns a copy of it. Errors: the context's, ErrEnded.
func (c *Conn) Recv(ctx context.Context) ([]byte, error) {
	i, wc, err := c.next(ctx, maxMessage)
	if err != nil {
		return nil, c.fail("receive", err)
	}
	b := append(make([]byte, 0, wc.Length), c.e.recvs[i].data[:wc.Length]...)
	c.recycle(i)
	return b, nil
}

// RecvInto waits for the next message and copies it to b. It allocates no memory. Errors: io.ErrShortBuffer, with the
// length of the message, which stays in the queue; those of Recv.
func (c *Conn) RecvInto(ctx context.Context, b []byte) (int, error) {
	i, wc, err := c.next(ctx, len(b))
	if err != nil {
		return int(wc.Length), c.fail("receive", err)
	}
	n := copy(b, c.e.recvs[i].data[:wc.Length])
	c.recycle(i)
	return n, nil
}

// next waits for the next message and removes it from the queue, if it has at most limit bytes. The caller recycles the
// buffer.
func (c *Conn) next(ctx context.Context, limit int) (int, ci.WC, error) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if err := c.e.until(ctx, &c.e.readers, func() bool { return c.e.arrived.size > 0 }); err != nil {
		return 0, ci.WC{}, err
	}
	a := *c.e.arrived.peek()
	if int(a.wc.Length) > limit {
		return 0, a.wc, io.ErrShortBuffer
	}
	c.e.arrived.pop()
	return a.buffer, a.wc, nil
}

// recycle posts the buffer of a message that was read, and sends credits to the peer when they are due.
func (c *Conn) recycle(i int) {
	c.e.postRecv(i)
	if c.plain {
		return
	}
	c.e.mu.Lock()
	due := c.credits.free()
	place := c.e.creditPlaces > 0
	c.e.mu.Unlock()
	if due && !place {
		c.e.poll() // completions of earlier grants make room: see grant
	}
	if due {
		c.grant()
	}
}

// grant sends credits to the peer when they are due and the send queue has room. If the queue is full, they are sent
// with the next message, or when a completion makes room.
func (c *Conn) grant() {
	c.e.mu.Lock()
	due := c.credits.due() && c.e.creditPlaces > 0 && c.e.failed == nil
	var imm uint32
	if due {
		imm = c.credits.grant()
		c.e.creditPlaces--
	}
	c.e.mu.Unlock()
	if !due {
		return
	}
	c.granting.Lock()
	defer c.granting.Unlock()
	c.grantWR[0] = ci.SendWR{ID: creditID, Op: ci.OpSend, Flags: ci.SendImmediate | ci.SendSignaled, Imm: imm}
	if err := c.e.postSend(c.grantWR[:]); err != nil {
		_ = c.e.failedOr(err)
	}
}

// Flush waits until the peer's HCA has acknowledged all messages that were sent before.
// Errors: the context's, ErrEnded.
func (c *Conn) Flush(ctx context.Context) error { return c.fail("flush", c.flush(ctx)) }

func (c *Conn) flush(ctx context.Context) error {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.e.until(ctx, &c.e.senders, func() bool { return c.e.failed == nil && c.e.inFlight == 0 })
}

// Read reads len(b) bytes of the peer's memory from the beginning of a region into b (RDMA READ; the peer's program is
// not involved). The data passes through buffers of the Conn, so b is not written after Read returns, also when ctx
// ends. If the peer does not have the region, or its rights do not allow the access, the connection ends.
// Errors: InvalidParameter (the region is shorter than b), the context's, ErrEnded.
func (c *Conn) Read(ctx context.Context, b []byte, from Region) error {
	return c.fail("read", c.transfer(ctx, ci.OpRead, b, from))
}

// Write writes b to the peer's memory at the beginning of a region (RDMA WRITE), and returns when the peer's HCA has
// acknowledged it. When ctx ends, a part may have been written, or be written later. Otherwise it is like Read.
func (c *Conn) Write(ctx context.Context, to Region, b []byte) error {
	return c.fail("write", c.transfer(ctx, ci.OpWrite, b, to))
}

// pieces is the number of pieces of a transfer that are in progress at once.
const pieces = 8

// transfer moves b in pieces of the size of a send buffer. It waits for a buffer only when it holds none: calls that
// hold buffers and wait for more could wait for each other.
func (c *Conn) transfer(ctx context.Context, op ci.SendOp, b []byte, r Region) error {
	if uint64(len(b)) > r.Length {
		return failure.Invalid("Conn.Read or Write", "%d bytes, and the region has %d", len(b), r.Length)
	}
	type piece struct{ buffer, at, n int }
	var queue [pieces]piece
	first, count, at := 0, 0, 0
	var failure error
	for count > 0 || failure == nil && at < len(b) {
		for failure == nil && at < len(b) && count < pieces {
			i, ok := 0, false
			if count == 0 {
				if i, failure = c.e.acquire(ctx); failure != nil {
					break
				}
			} else if i, ok = c.e.tryAcquire(true); !ok {
				break
			}
			n := min(len(b)-at, len(c.e.sends[i].data))
			if op == ci.OpWrite {
				copy(c.e.sends[i].data, b[at:at+n])
			}
			wr := ci.SendWR{Op: op, Remote: ci.Remote{Addr: r.Addr + uint64(at), RKey: r.RKey}}
			if failure = c.e.post(i, wr, n); failure != nil {
				break
			}
			queue[(first+count)%pieces] = piece{i, at, n}
			count++
			at += n
		}
		if count == 0 {
			break
		}
		p := queue[first]
		first, count = (first+1)%pieces, count-1
		if failure != nil {
			c.e.abandon(p.buffer)
			continue
		}
		if _, failure = c.e.wait(ctx, p.buffer); failure != nil {
			continue
		}
		if op == ci.OpRead {
			copy(b[p.at:p.at+p.n], c.e.sends[p.buffer].data)
		}
		c.e.release(p.buffer)
	}
	return failure
}

// ReadInto reads n bytes of the peer's memory into m at offset off, without a copy. If ctx ends before, data may still
// arrive in m until the Conn is closed. Otherwise it is like Read.
func (c *Conn) ReadInto(ctx context.Context, m *Memory, off, n int, from Region) error {
	return c.fail("read", c.direct(ctx, ci.OpRead, m, off, n, from))
}

// WriteFrom writes n bytes of m at offset off to the peer's memory, without a copy. They must not change before it
// returns or, if ctx ends before, until the Conn is closed. Otherwise it is like Write.
func (c *Conn) WriteFrom(ctx context.Context, to Region, m *Memory, off, n int) error {
	return c.fail("write", c.direct(ctx, ci.OpWrite, m, off, n, to))
}

func (c *Conn) direct(ctx context.Context, op ci.SendOp, m *Memory, off, n int, r Region) error {
	size := m.storage.Len()
	switch {
	case off < 0 || n < 0 || uint64(off) > size || uint64(n) > size-uint64(off) || n > maxMessage:
		return failure.Invalid("Conn.ReadInto or WriteFrom",
			"%d bytes at offset %d, and the memory has %d; at most %d at once", n, off, size, maxMessage)
	case uint64(n) > r.Length:
		return failure.Invalid("Conn.ReadInto or WriteFrom", "%d bytes, and the region has %d", n, r.Length)
	}
	local, err := m.region(c)
	if err != nil {
		return err
	}
	i, err := c.e.acquire(ctx)
	if err != nil {
		return err
	}
	c.e.sends[i].sge[0] = local.SGE(uint64(off), uint32(n))
	wr := ci.SendWR{Op: op, SGL: c.e.sends[i].sge[:], Remote: ci.Remote{Addr: r.Addr, RKey: r.RKey}}
	return c.complete(ctx, i, wr, 0)
}

// complete posts a work request and waits for it.
func (c *Conn) complete(ctx context.Context, i int, wr ci.SendWR, n int) error {
	if err := c.e.post(i, wr, n); err != nil {
		return err
	}
	if _, err := c.e.wait(ctx, i); err != nil {
		return err
	}
	c.e.release(i)
	return nil
}

// atomicLen is the length in bytes of the operand of an atomic.
const atomicLen = 8

// FetchAdd adds to the 8 bytes at the beginning of a region of the peer, and returns their old value. They are aligned,
// in the peer's byte order, and allow ci.RemoteAtomic. Errors: as Read.
func (c *Conn) FetchAdd(ctx context.Context, at Region, add uint64) (uint64, error) {
	return c.atomic(ctx, "fetch and add", at, ci.SendWR{Op: ci.OpFetchAdd, Atomic: ci.Atomic{Compare: add}})
}

// CompareSwap sets the 8 bytes at the beginning of a region of the peer to swap if they are equal to compare, and
// returns their old value. Otherwise it is like FetchAdd.
func (c *Conn) CompareSwap(ctx context.Context, at Region, compare, swap uint64) (uint64, error) {
	wr := ci.SendWR{Op: ci.OpCompareSwap, Atomic: ci.Atomic{Compare: compare, Swap: swap}}
	return c.atomic(ctx, "compare and swap", at, wr)
}

func (c *Conn) atomic(ctx context.Context, op string, at Region, wr ci.SendWR) (uint64, error) {
	if at.Length < atomicLen {
		return 0, c.fail(op, failure.Invalid("Conn.FetchAdd or CompareSwap",
			"the region has %d bytes, want at least %d", at.Length, atomicLen))
	}
	i, err := c.e.acquire(ctx)
	if err != nil {
		return 0, c.fail(op, err)
	}
	wr.Remote = ci.Remote{Addr: at.Addr, RKey: at.RKey}
	if err := c.e.post(i, wr, atomicLen); err != nil {
		return 0, c.fail(op, err)
	}
	if _, err := c.e.wait(ctx, i); err != nil {
		return 0, c.fail(op, err)
	}
	old := binary.NativeEndian.Uint64(c.e.sends[i].data)
	c.e.release(i)
	return old, nil
}

// Do executes a work request and returns its completion: binds, invalidations, and others for which Conn has no method.
// Do sets ID and the signaled flag. A SEND is invalid unless the Conn is plain, because it is not counted
// (InvalidParameter). If ctx ends before, the work request is still executed.
// Errors: the context's, those of ci.QP.PostSend, ErrEnded.
func (c *Conn) Do(ctx context.Context, wr ci.SendWR) (ci.WC, error) {
	if wr.Op == ci.OpSend && !c.plain || wr.Flags&ci.SendImmediate != 0 {
		return ci.WC{}, c.fail("do", failure.Invalid("Conn.Do",
			"the work request consumes a receive of the peer: use Send"))
	}
	i, err := c.e.acquire(ctx)
	if err != nil {
		return ci.WC{}, c.fail("do", err)
	}
	if err := c.e.post(i, wr, 0); err != nil {
		return ci.WC{}, c.fail("do", err)
	}
	wc, err := c.e.wait(ctx, i)
	if err != nil {
		return wc, c.fail("do", err)
	}
	c.e.release(i)
	wc.ID = wr.ID
	return wc, nil
}

// ID returns the underlying ID: its QP, addresses, path, PD and events. The Conn modifies and closes it.
func (c *Conn) ID() *cmid.ID { return c.id }

// Reply returns the private data with which the peer accepted, of a Conn that was dialed.
func (c *Conn) Reply() []byte { return c.reply }

// LocalAddr returns the address of this end.
func (c *Conn) LocalAddr() Addr { return c.id.LocalAddr() }

// RemoteAddr returns the address of the peer.
func (c *Conn) RemoteAddr() Addr { return c.id.RemoteAddr() }

// Done is closed when the connection is over.
func (c *Conn) Done() <-chan struct{} { return c.id.Done() }

// Err returns nil before the end, and then an error that is ErrEnded, with its cause.
func (c *Conn) Err() error { return c.id.Err() }

// Close ends the connection and releases its resources. It waits until the peer's HCA has acknowledged what was sent,
// at most for ConnConfig.Linger, and not for the peer's program. It is idempotent. Calls in progress return ErrEnded
// with net.ErrClosed. Do not call it from a callback.
func (c *Conn) Close() error {
	c.closing.Do(func() {
		if c.cfg.Linger > 0 {
			ctx, cancel := context.WithCancel(context.Background())
			t := c.id.Manager().AL().Clock().AfterFunc(c.cfg.Linger, cancel)
			_ = c.flush(ctx) // after an error, too, the connection is over
			t.Stop()
			cancel()
		}
		c.closeErr = c.e.close(net.ErrClosed)
	})
	return c.closeErr
}
