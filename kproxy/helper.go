package kproxy

import (
	"errors"
	"os"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// helper copies by messages to a goroutine or thread of the client's process. It is the means where the system does not
// permit cross-memory copies: for processes of other users, of other containers, and those that protect their memory.
// The client copies registered memory only. copier limits the time, and has one copy in progress.
type helper struct {
	file *os.File // the daemon's end
	id   uint64
	buf  []byte
}

var _ reach = (*helper)(nil)

var (
	errHelper      = errors.New("the client did not copy its memory for the daemon: not registered, or not mapped")
	errHelperReply = errors.New("the client's reply to a copy does not match it")
	errHelperStuck = errors.New("the client did not copy its memory for the daemon in time (stopped, or in a " +
		"debugger): such memory of it is not reached any more; memory of ual.NewMemory is shared and needs no copies")
)

func (h *helper) read(b []byte, from place) (int, error) {
	data, err := h.exchange(schema.Copy{Kind: schema.CopyRead}, from, len(b), nil)
	if err != nil {
		return 0, err
	}
	if len(data) != len(b) {
		h.close()
		return 0, errHelperReply
	}
	return copy(b, data), nil
}

func (h *helper) write(b []byte, to place) (int, error) {
	data, err := h.exchange(schema.Copy{Kind: schema.CopyWrite}, to, len(b), b)
	if err != nil {
		return 0, err
	}
	if len(data) != 0 {
		h.close()
		return 0, errHelperReply
	}
	return len(b), nil
}

func (h *helper) copySpans(list []ci.Span, isWrite bool) (done int, err error) {
	return copyEach(h, list, isWrite)
}

// exchange sends a request and returns the data of the reply, which are valid until the next call.
func (h *helper) exchange(c schema.Copy, at place, n int, data []byte) ([]byte, error) {
	h.id++
	c.ID, c.Length = h.id, uint32(n)
	c.Addr, c.Token = at.addr, at.token
	if size := max(schema.CopySize, schema.CopyReplySize) + n + 1; len(h.buf) < size {
		h.buf = make([]byte, size)
	}
	if _, err := h.file.Write(append(c.Append(h.buf[:0]), data...)); err != nil {
		return nil, err
	}
	k, err := h.file.Read(h.buf)
	if err != nil {
		return nil, err
	}
	r, got, err := schema.ParseCopyReply(h.buf[:k])
	switch {
	case err != nil || r.ID != c.ID: // later replies would be those of other copies
		h.close()
		return nil, errHelperReply
	case r.Failed:
		return nil, errHelper
	}
	return got, nil
}

// abort closes the socket, which ends the copy. The client copies nothing more.
func (h *helper) abort() error {
	h.close()
	return errHelperStuck
}

func (h *helper) close() { h.file.Close() }

// serveCopies executes schema.ServeCopies.
func (c *Session) serveCopies() (*Result, error) {
	const verb = "PD.RegisterMR"
	h, theirs, err := newHelper()
	if err != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "a socket for copies", Err: err}
	}
	if err := c.proc.help(h); err != nil {
		h.close()
		theirs.Close()
		return nil, err
	}
	return &Result{Body: &schema.None{}, Files: []*os.File{theirs}, CloseFiles: true,
		undo: func() { c.proc.unhelp(h) }}, nil
}

// help has the client copy where the daemon cannot or must not. Status: InvalidState (it does so already, or the
// process has exited).
func (p *process) help(r reach) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.helped != nil {
		return failf("PD.RegisterMR", ci.InvalidState, "the client copies for the daemon already, or has exited")
	}
	p.helped = &copier{reach: r, clock: p.copies.clock, limit: p.copies.limit, uid: p.copies.uid, users: p.copies.users}
	return nil
}

// unhelp is the inverse of help, for a client that does not have the socket.
func (p *process) unhelp(r reach) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.helped != nil && p.helped.reach == r {
		p.helped.close()
		p.helped = nil
	}
}

// NeedsCopies reports whether memory that the daemon could not reach, which is the error, may be reached if the client
// copies for the daemon: schema.ServeCopies.
func NeedsCopies(err error) bool {
	for _, e := range []error{errByClient, errNoProcess, errOtherUser, os.ErrPermission, os.ErrNotExist,
		errors.ErrUnsupported} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
