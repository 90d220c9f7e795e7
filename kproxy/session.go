package kproxy

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// Session is one client process with everything that it has.
type Session struct {
	s       *Server
	id      uint64
	peer    Peer
	name    string
	command string // of the process when it connected
	client  *accesslayer.Client
	proc    *process
	quota   Quota
	log     *slog.Logger
	stats   stats

	mu       sync.Mutex
	closed   bool
	slots    []slot
	free     []uint32 // indexes of slots
	used     usage
	describe func() []string // nil: nothing
	calls    sync.WaitGroup  // of Do

	statusMu   sync.Mutex
	statusText []byte        // that parts are read of
	begin      sync.Once     // of the end
	ending     chan struct{} // closed when the cleanup begins
	ended      chan struct{} // closed when it is complete
}

// stats counts what a client did, for status reports.
type stats struct {
	requests, posts, polls, completions, events, merged, rejected atomic.Uint64

	waiting atomic.Int64 // events in all queues now, which has a limit: see admit
}

func newSession(s *Server, id uint64, p Peer, bits int, name string, client *accesslayer.Client) *Session {
	proc := newProcess(p, bits, &s.atomics, s.cfg.AL.Clock())
	proc.isDenied, proc.isByClient = !s.cfg.CanCopy(p), s.cfg.ClientCopies
	proc.isTrusted = proc.isTrusted && !s.cfg.LimitCopies
	if s.cfg.KernelChecks {
		proc.reach.useKernelChecks()
	}
	proc.suspend(p.UID, &s.delays)
	proc.copies.limit = s.cfg.CopyTimeout
	return &Session{s: s, id: id, peer: p, name: name, client: client, quota: s.cfg.Quota, proc: proc,
		ending: make(chan struct{}), ended: make(chan struct{}),
		log: s.cfg.Logger.With("client", id, "pid", p.PID, "uid", p.UID)}
}

// Peer returns the process.
func (c *Session) Peer() Peer { return c.peer }

// Describe sets the function that describes what a front end holds for the client outside the session, such as
// listeners, one text for each. Status calls it, with no lock held.
func (c *Session) Describe(describe func() []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.describe = describe
}

// Quota returns the client's limits.
func (c *Session) Quota() Quota { return c.quota }

// Received counts a message of the client.
func (c *Session) Received(cmd schema.Command) { c.s.messages[cmd].Add(1) }

// Reject counts a message of the client that did not match its declaration.
func (c *Session) Reject() { c.stats.rejected.Add(1) }

// Close destroys everything that the client has, newest first, and returns when it is complete. Verbs fail from now on.
// It is idempotent; later calls wait for the first.
func (c *Session) Close() error {
	c.BeginClose()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.ended
		return nil
	}
	c.closed = true
	objects := c.objects()
	c.mu.Unlock()
	defer close(c.ended)
	defer c.s.forget(c)
	c.proc.close() // no access to the process any more, whose number may be assigned to another
	for _, o := range objects {
		if o.queue != nil {
			o.queue.close()
		}
	}
	c.abandon()
	err := c.client.Close()
	for errors.Is(err, ci.Timeout) { // the destruction continues; nothing may be released before it ends
		c.log.Error("kproxy: cleanup is still waiting for the driver", "error", err)
		err = c.client.Close()
	}
	if err != nil {
		c.log.Error("kproxy: cleanup failed", "error", err)
		return err // memory stays mapped, since the driver may still use it
	}
	c.calls.Wait() // they fail, now that the access layer's client is closed
	c.mu.Lock()
	objects = c.objects()
	c.mu.Unlock()
	for _, o := range objects {
		c.release(o.memories...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.shares.give(c.peer, share{int64(c.used.mappings), int64(c.used.files), c.used.space})
	c.slots, c.free, c.used = nil, nil, usage{}
	c.log.Info("kproxy: client gone", "requests", c.stats.requests.Load(), "rejected", c.stats.rejected.Load())
	return nil
}

// Call is one request.
type Call struct {
	Command schema.Command
	Body    any        // pointer to the command's request type, checked against its declaration
	Files   []*os.File // the front end closes them after Do
}

// Result is the reply to a Call.
type Result struct {
	Body  any        // pointer to the command's reply type
	Files []*os.File // the front end sends them
	// CloseFiles reports whether the front end closes the files when it has sent them.
	CloseFiles bool

	made schema.Handle // of the object that the verb has created; zero: none
	undo func()        // takes back what else the verb has done; nil: nothing
}

// Undo destroys what a verb of Do has created, because its reply cannot be sent: the client does not know the handle,
// or does not have the descriptor.
func (c *Session) Undo(r *Result) {
	if r.undo != nil {
		r.undo()
	}
	if r.made != 0 {
		_, _ = c.destroy(&schema.Object{Handle: r.made}) // it has logged the error
	}
}

// Do executes a verb that is not one of the data path.
func (c *Session) Do(call *Call) (*Result, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, failf(call.Command.Verb(), ci.InvalidState, "the client is being closed")
	}
	c.calls.Add(1)
	c.mu.Unlock()
	defer c.calls.Done()
	c.stats.requests.Add(1)
	if !occupies[call.Command] {
		return c.execute(call)
	}
	var result *Result
	err := c.AfterEndings(func() (err error) {
		result, err = c.execute(call)
		return err
	})
	return result, err
}

// execute executes a verb once.
func (c *Session) execute(call *Call) (*Result, error) {
	switch r := call.Body.(type) {
	case *schema.QueryStatus:
		return c.queryStatus(r)
	case *schema.CreateEventQueue:
		return c.createEventQueue(r)
	case *schema.Object:
		return c.destroy(r)
	case *schema.OpenCA:
		return c.openCA(r, call.Files)
	case *schema.CA:
		return c.queryCA(r)
	case *schema.ModifyCA:
		return c.modifyCA(r)
	case *schema.LocalMAD:
		return c.localMAD(r)
	case *schema.SLForIP:
		return c.slForIP(r)
	case *schema.VendorCall:
		return c.vendorCall(r, call.Files)
	case *schema.AllocatePD:
		return c.allocatePD(r, call.Files)
	case *schema.None:
		return c.listHCAs()
	case *schema.Control:
		return c.control(r)
	}
	return c.doObject(call)
}

// doObject executes the verbs of the objects below a PD.
func (c *Session) doObject(call *Call) (*Result, error) {
	switch r := call.Body.(type) {
	case *schema.CreateAV:
		return c.createAV(r, call.Files)
	case *schema.AV:
		return c.queryAV(r)
	case *schema.ModifyAV:
		return c.modifyAV(r, call.Files)
	case *schema.CreateCQ:
		return c.createCQ(r, call.Files)
	case *schema.CQ:
		return c.queryCQ(r)
	case *schema.ResizeCQ:
		return c.resizeCQ(r, call.Files)
	case *schema.ModifyCQ:
		return c.modifyCQ(r)
	case *schema.CreateSRQ:
		return c.createSRQ(r, call.Files)
	case *schema.SRQ:
		return c.querySRQ(r)
	case *schema.ModifySRQ:
		return c.modifySRQ(r, call.Files)
	case *schema.CreateQP:
		return c.createQP(r, call.Files)
	case *schema.QP:
		return c.queryQP(r)
	case *schema.ModifyQP:
		return c.modifyQP(r, call.Files)
	case *schema.TimeWait:
		return c.timeWait(r)
	case *schema.AttachMcast:
		return c.attachMcast(r, call.Files)
	case *schema.RegisterMR:
		return c.registerMR(r, call.Files)
	case *schema.ServeCopies:
		return c.serveCopies()
	case *schema.RegisterSMR:
		return c.registerSMR(r)
	case *schema.MR:
		return c.queryMR(r)
	case *schema.ModifyMR:
		return c.modifyMR(r, call.Files)
	case *schema.CreateMW:
		return c.createMW(r, call.Files)
	case *schema.MW:
		return c.queryMW(r)
	}
	if s := c.s.cfg.Service; s != nil {
		return s.Do(c, call)
	}
	return nil, failf(call.Command.Verb(), ci.Unsupported, "the daemon does not execute %q", call.Command)
}
