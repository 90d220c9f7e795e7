package nvmet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
)

// Data buffers of a queue, each for the longest transfer. Commands wait for one.
const adminBuffers, ioBuffers = 2, 8

func buffersOf(p connectRequest) int {
	if p.queue == 0 {
		return adminBuffers
	}
	return ioBuffers
}

// queueCost returns the bytes that a queue holds: a receive buffer, a send buffer and a capsule in progress for each
// entry, and the buffers of data.
func queueCost(p connectRequest) int64 {
	return int64(3*p.entries()*capsuleLen + buffersOf(p)*maxTransfer)
}

// transport is a connection as commands use it: a rdmacm.Conn.
type transport interface {
	Send(ctx context.Context, b []byte) error
	SendInvalidate(ctx context.Context, b []byte, key ci.Key) error
	ReadInto(ctx context.Context, m *rdmacm.Memory, off, n int, from rdmacm.Region) error
	WriteFrom(ctx context.Context, to rdmacm.Region, m *rdmacm.Memory, off, n int) error
}

// queue is a connection that carries the commands of one queue.
type queue struct {
	t         *Target
	c         transport
	id        uint16
	entries   int
	local     netip.AddrPort
	log       *slog.Logger
	cancel    context.CancelCauseFunc // ends the connection
	connected func()                  // called after Connect
	commands  sync.WaitGroup

	data    []byte         // of all buffers
	memory  *rdmacm.Memory // the same
	buffers chan int       // offsets of the free ones

	mu      sync.Mutex
	ctrl    *controller         // nil before Connect
	busy    map[uint16]struct{} // identifiers of outstanding commands
	pending []*request          // Asynchronous Event Requests among them

	sending sync.Mutex // orders the responses with their heads
	head    uint16
	size    uint16 // entries according to Connect, or 0: responses have no head
}

func newQueue(t *Target, c transport, p connectRequest, log *slog.Logger) *queue {
	q := &queue{t: t, c: c, id: p.queue, entries: p.entries(), log: log, busy: map[uint16]struct{}{},
		data: make([]byte, buffersOf(p)*maxTransfer), buffers: make(chan int, buffersOf(p)), connected: func() {}}
	for at := 0; at < len(q.data); at += maxTransfer {
		q.buffers <- at
	}
	return q
}

// receive starts the commands that arrive until the connection ends, and returns why.
func (q *queue) receive(ctx context.Context, c *rdmacm.Conn) error {
	for {
		b, err := c.Recv(ctx)
		if err == nil {
			err = q.start(ctx, b)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
	}
}

// request is a command in progress.
type request struct {
	command
	q      *queue
	result uint64
}

// errPending is returned by a command that has no response yet.
var errPending = errors.New("pending")

// start starts a command. An error ends the connection.
func (q *queue) start(ctx context.Context, capsule []byte) error {
	if len(capsule) < commandLen {
		return fmt.Errorf("a capsule has %d bytes, want at least %d", len(capsule), commandLen)
	}
	r := &request{command: capsule, q: q}
	q.mu.Lock()
	_, again := q.busy[r.id()]
	full, ctrl := len(q.busy) == q.entries, q.ctrl
	if !again && !full {
		q.busy[r.id()] = struct{}{}
	}
	q.mu.Unlock()
	if ctrl != nil {
		ctrl.alive()
	}
	switch {
	case again: // the identifier stays that of the first
		return q.send(ctx, r, commandIDConflict)
	case full:
		return fmt.Errorf("more commands than the %d entries of the queue are outstanding", q.entries)
	}
	q.commands.Go(func() {
		if err := q.execute(ctx, r, ctrl); err != nil {
			q.cancel(err)
		}
	})
	return nil
}

// execute carries out a command and sends its response. An error ends the connection.
func (q *queue) execute(ctx context.Context, r *request, ctrl *controller) error {
	err := r.check()
	if err == nil {
		err = q.dispatch(ctx, r, ctrl)
	}
	s, isStatus := errors.AsType[status](err)
	switch {
	case errors.Is(err, errPending):
		return nil
	case err != nil && !isStatus:
		return err
	case err != nil:
		q.log.Debug("nvmet: a command has failed", "opcode", r.opcode(), "status", uint16(s))
	}
	return q.respond(ctx, r, s)
}

// dispatch finds and calls the handler of a command.
func (q *queue) dispatch(ctx context.Context, r *request, ctrl *controller) error {
	switch {
	case r.isFabrics() && r.fabricsType() == typeConnect:
		return r.connect(ctx)
	case ctrl == nil:
		return sequenceError
	case q.id != 0:
		return r.io(ctx, ctrl)
	case r.isFabrics():
		return r.property(ctrl)
	case !ctrl.enabled():
		return sequenceError
	}
	if f := adminCommands[r.opcode()]; f != nil {
		return f(r, ctx, ctrl)
	}
	return invalidOpcode
}

// respond ends a command with a response.
func (q *queue) respond(ctx context.Context, r *request, s status) error {
	q.mu.Lock()
	delete(q.busy, r.id()) // before the response: the host uses the identifier again then
	q.mu.Unlock()
	return q.send(ctx, r, s)
}

func (q *queue) send(ctx context.Context, r *request, s status) error {
	q.sending.Lock()
	defer q.sending.Unlock()
	head := uint16(0xffff)
	if q.size != 0 {
		q.head = (q.head + 1) % q.size
		head = q.head
	}
	b := response(r.result, head, r.id(), s)
	if key, ok := r.invalidates(); ok {
		if err := q.c.SendInvalidate(ctx, b, key); !errors.Is(err, ci.Unsupported) {
			return err
		}
	}
	return q.c.Send(ctx, b)
}

// leave removes the queue from its controller.
func (q *queue) leave() {
	q.mu.Lock()
	ctrl := q.ctrl
	q.mu.Unlock()
	if ctrl != nil {
		ctrl.remove(q)
	}
}

// pull passes n bytes of the host's data to f.
func (r *request) pull(ctx context.Context, n int, f func([]byte) error) error {
	if r.descriptorType() == descInline {
		b, err := r.inline()
		switch {
		case err != nil:
			return err
		case len(b) < n:
			return sglLengthInvalid
		}
		return f(b[:n])
	}
	return r.move(ctx, n, func(from rdmacm.Region, at int) error {
		if err := r.q.c.ReadInto(ctx, r.q.memory, at, n, from); err != nil {
			return err
		}
		return f(r.q.data[at : at+n])
	})
}

// push sends n bytes to the memory of the host, which f writes.
func (r *request) push(ctx context.Context, n int, f func([]byte) error) error {
	return r.move(ctx, n, func(to rdmacm.Region, at int) error {
		if err := f(r.q.data[at : at+n]); err != nil {
			return err
		}
		return r.q.c.WriteFrom(ctx, to, r.q.memory, at, n)
	})
}

// move calls f with the memory of the host, and with the offset of a data buffer. The buffer is returned only if f
// succeeds or fails by a status: otherwise data may still arrive in it, until the connection has ended.
func (r *request) move(ctx context.Context, n int, f func(host rdmacm.Region, at int) error) error {
	t, host := r.descriptorType(), r.keyed()
	switch {
	case t != descKeyed && t != descKeyedInvalidate:
		return sglTypeInvalid
	case n > maxTransfer:
		return invalidField
	case host.Length < uint64(n):
		return sglLengthInvalid
	}
	select {
	case at := <-r.q.buffers:
		err := f(host, at)
		if _, isStatus := errors.AsType[status](err); err == nil || isStatus {
			r.q.buffers <- at
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
