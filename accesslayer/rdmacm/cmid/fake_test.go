package cmid_test

import (
	"context"
	"sync"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// fakeCM is a connection manager whose peers behave as a test defines.
type fakeCM struct {
	connect func(context.Context, cm.ConnectConfig) (cm.Conn, error)
	lookup  func(context.Context, cm.LookupConfig) (*cm.LookupReply, error)
	listen  func(cm.ListenConfig) error
	// what listeners receive
	conns   chan cm.Conn
	lookups chan cm.LookupRequest
}

func (f *fakeCM) Listen(cfg cm.ListenConfig) (cm.Listener, error) {
	if f.listen != nil {
		if err := f.listen(cfg); err != nil {
			return nil, err
		}
	}
	return &fakeListener{f: f, closed: make(chan struct{})}, nil
}

func (f *fakeCM) Connect(ctx context.Context, cfg cm.ConnectConfig) (cm.Conn, error) {
	return f.connect(ctx, cfg)
}

func (f *fakeCM) Lookup(ctx context.Context, cfg cm.LookupConfig) (*cm.LookupReply, error) {
	return f.lookup(ctx, cfg)
}

func (f *fakeCM) StartConnect(ctx context.Context, cfg cm.ConnectConfig, done func(cm.Conn, error)) error {
	go func() { done(f.Connect(ctx, cfg)) }()
	return nil
}

func (f *fakeCM) StartLookup(ctx context.Context, cfg cm.LookupConfig, done func(*cm.LookupReply, error)) error {
	go func() { done(f.Lookup(ctx, cfg)) }()
	return nil
}

func (f *fakeCM) Close() error { return nil }

type fakeListener struct {
	f      *fakeCM
	once   sync.Once
	closed chan struct{}
}

func (l *fakeListener) Accept(ctx context.Context) (cm.Conn, error) {
	select {
	case c := <-l.f.conns:
		return c, nil
	case <-l.closed:
		return nil, cm.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *fakeListener) AcceptLookup(ctx context.Context) (cm.LookupRequest, error) {
	select {
	case r := <-l.f.lookups:
		return r, nil
	case <-l.closed:
		return nil, cm.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *fakeListener) StartAccept(ctx context.Context, done func(cm.Conn, error)) error {
	go func() { done(l.Accept(ctx)) }()
	return nil
}

func (l *fakeListener) StartAcceptLookup(ctx context.Context, done func(cm.LookupRequest, error)) error {
	go func() { done(l.AcceptLookup(ctx)) }()
	return nil
}

func (l *fakeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// fakeConn records the calls. QPAttr returns attributes that move a QP of the reference HCA.
type fakeConn struct {
	cm.Conn // nil: an unexpected call panics
	req     *cm.Request
	rep     *mad.REP
	attr    func(ci.QPState) (ci.QPField, ci.QPAttr, error)
	accept  func(context.Context, cm.AcceptConfig) error
	confirm error

	mu      sync.Mutex
	state   cm.State
	calls   []string
	reasons []mad.RejReason
}

func (c *fakeConn) note(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

func (c *fakeConn) noted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.calls...)
}

func (c *fakeConn) Request() *cm.Request    { return c.req }
func (c *fakeConn) Reply() *mad.REP         { return c.rep }
func (c *fakeConn) TimeWait() time.Duration { return time.Millisecond }
func (c *fakeConn) State() cm.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}
func (c *fakeConn) QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error) { return c.attr(to) }
func (c *fakeConn) Confirm([]byte) error                                { c.note("confirm"); return c.confirm }
func (c *fakeConn) AnswerDisconnect([]byte) error                       { c.note("answer disconnect"); return nil }
func (c *fakeConn) Close() error                                        { c.note("close"); return nil }
func (c *fakeConn) Established() error                                  { c.note("established"); return nil }
func (c *fakeConn) Accept(ctx context.Context, cfg cm.AcceptConfig) error {
	return c.accept(ctx, cfg)
}

func (c *fakeConn) Disconnect(context.Context, []byte) ([]byte, error) {
	c.note("disconnect")
	return nil, cm.ErrTimeout
}

func (c *fakeConn) StartAccept(ctx context.Context, cfg cm.AcceptConfig, done func(error)) error {
	go func() { done(c.Accept(ctx, cfg)) }()
	return nil
}

func (c *fakeConn) StartDisconnect(ctx context.Context, private []byte, done func([]byte, error)) error {
	go func() { done(c.Disconnect(ctx, private)) }()
	return nil
}

func (c *fakeConn) Reject(r mad.RejReason, _, _ []byte) error {
	c.note("reject")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reasons = append(c.reasons, r)
	return nil
}

type fakeLookup struct {
	cm.LookupRequest
	req    *mad.SIDRREQ
	path   cm.Path
	status chan mad.SIDRStatus
}

func (l *fakeLookup) Request() *mad.SIDRREQ { return l.req }
func (l *fakeLookup) From() mads.Address    { return mads.Address{AV: l.path.AV} }
func (l *fakeLookup) Path() cm.Path         { return l.path }
func (l *fakeLookup) Reject(s mad.SIDRStatus, _, _ []byte) error {
	l.status <- s
	return nil
}
