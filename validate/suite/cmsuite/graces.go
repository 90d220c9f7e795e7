package cmsuite

import (
	"context"
	"sync"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Timeouts that pass while an answer has arrived and was not handled.

var _ = datagrams.Case(validate.Case{
	ID:    "mad.time.backlog",
	Title: "requests whose timeout passes while the services handle what has arrived before",
	Run:   timeBacklog,
}, MADTime01)

func timeBacklog(t *validate.T) {
	b := newBench(t, benchSetting{virtual: true})
	from := b.agent(vendor())
	for _, tt := range kit.Variants(t, "", []struct {
		name    string
		busy    time.Duration // after the timeout, with the response in hand
		inVain  bool
		timeout time.Duration
	}{{"for a moment", 0, false, time.Second}, {"for twice the timeout", 2 * time.Second, false, time.Second},
		{"for an hour", time.Hour, true, time.Second}}) {
		end := b.begin(t.Context(), from, &mads.Message{To: b.side.to(b.peer), MAD: datagram(t, mad.Get, 7),
			Timeout: tt.timeout})
		first := b.one(1, "of a request")[0]
		kit.Equal(t, "Q_Key of a request to QP1", first.to.QKey, ci.QKey(mad.QKeyGSI))
		b.nextIn(tt.timeout, "of a request")
		b.caughtUp(from)
		polled, release := make(chan struct{}), make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		defer free() // also if the case fails
		b.respond(first, func(*ci.WC, []byte) { close(polled); <-release })
		await(t, polled, "poll of the response")
		b.time.Advance(tt.timeout)
		pending(t, end, "request whose response was polled before its timeout")
		if tt.busy > 0 {
			b.time.Advance(tt.busy)
		}
		if tt.inVain {
			e := await(t, end, "request whose response is never handled")
			kit.WantExactly(t, e.err, "error of a request whose response is never handled", ci.Timeout)
			free()
			b.one(0, "after a late response")
			pending(t, end, "request that has ended")
			continue
		}
		free()
		e := await(t, end, "request whose response was polled before its timeout")
		kit.OK(t, e.err, "request whose response was polled before its timeout, handled "+tt.name+" later")
		b.one(0, "after the response")
	}
}

// backlogged is MAD services whose agents have datagrams that they have not delivered, as the case says.
type backlogged struct {
	mads.Service

	mu      sync.Mutex
	has     bool   // there are such datagrams
	caught  func() // called when they have been delivered
	sent    int    // datagrams of class CM
	waiting int    // calls of CatchUp
}

type backloggedAgent struct {
	mads.Agent
	s *backlogged
}

func (s *backlogged) Register(cfg mads.AgentConfig) (mads.Agent, error) {
	a, err := s.Service.Register(cfg)
	if err != nil {
		return nil, err
	}
	return &backloggedAgent{a, s}, nil
}

func (a *backloggedAgent) Send(m *mads.Message) error {
	a.s.mu.Lock()
	a.s.sent++
	a.s.mu.Unlock()
	return a.Agent.Send(m)
}

func (a *backloggedAgent) CatchUp(f func()) bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.s.waiting++
	a.s.caught = f
	return a.s.has
}

// set sets whether there are datagrams that were not delivered. It returns the function that waits for the last ones.
func (s *backlogged) set(has bool) (caught func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has = has
	return s.caught
}

// took returns how many datagrams were sent, and how often the manager asked whether all have arrived, since the last
// call.
func (s *backlogged) took() (sent, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, waiting = s.sent, s.waiting
	s.sent, s.waiting = 0, 0
	return sent, waiting
}

var _ = timers.Case(validate.Case{
	ID:    "cm.timer.backlog",
	Title: "a lookup and a request whose timeout passes while datagrams are not delivered",
	Run:   timerBacklog,
}, CMTimer01)

func timerBacklog(t *validate.T) {
	ha, hb := t.Pair()
	if _, ok := ha.(Host); ok {
		t.Skip("the MAD services are in another process, and the case cannot control them")
	}
	v := clock.NewVirtual(time.Hour)
	a, b := newSideWith(t, ha, setting{clock: v}), newSide(t, hb)
	x, _ := newEnds(a, b, kit.Type(ci.RC))
	s := &backlogged{Service: a.mads}
	m, err := cm.New(a.al, s, cm.Config{})
	kit.OK(t, err, "cm.New")
	a.closeAtEnd(m.Close, "cm.Service.Close")
	ended := make(chan error, 1)
	var conn cm.Conn
	p := newScript(t, b, a)
	path := a.path(b)
	path.LifeTime = 20
	type call struct {
		name   string
		begin  func(ctx context.Context) error
		answer func()
	}
	calls := []call{
		{"lookup", func(ctx context.Context) error {
			return m.StartLookup(ctx, cm.LookupConfig{Service: service, Path: path},
				func(_ *cm.LookupReply, err error) { ended <- err })
		}, func() {
			q, h := expect[*mad.SIDRREQ](p, "SIDR_REQ")
			p.send(h.TID, &mad.SIDRREP{RequestID: q.RequestID, ServiceID: q.ServiceID, QPN: 0x456})
		}},
		{"request", func(ctx context.Context) error {
			return m.StartConnect(ctx, x.request(b, nil), func(c cm.Conn, err error) { conn = c; ended <- err })
		}, func() {
			q, h := expect[*mad.REQ](p, "REQ")
			p.send(h.TID, p.rep(q, 0x456))
		}},
	}
	copies := func(sent, waiting int, where string) {
		gotSent, gotWaiting := s.took()
		kit.Equal(t, "messages, and waits for what has arrived, "+where, [2]int{gotSent, gotWaiting},
			[2]int{sent, waiting})
	}
	begin := func(ctx context.Context, c *call) (timeout time.Duration) {
		s.set(false)
		s.took()
		kit.OK(t, c.begin(ctx), "start of a "+c.name)
		copies(1, 0, "at the start of a "+c.name)
		at, ok := v.Next()
		kit.True(t, ok, "timer of a "+c.name, "one that is set", "none")
		return at - v.Now()
	}
	for i := range calls {
		c := &calls[i]
		timeout := begin(t.Context(), c)
		if c.name == "lookup" { // 1.1 s and twice the packet life time
			kit.Equal(t, "timeout of a lookup", timeout, 4096*time.Nanosecond<<18+2*(4096*time.Nanosecond<<20))
		}
		s.set(true)
		v.Advance(timeout)
		copies(0, 1, "after the timeout of a "+c.name+" with a backlog")
		c.answer()
		kit.OK(t, await(t, ended, "outcome of a "+c.name), "outcome of a "+c.name)
		old := s.set(true)
		old()
		copies(0, 0, "after the answer to a "+c.name+" was delivered")
		if conn != nil {
			kit.OK(t, conn.Confirm(nil), "cm.Conn.Confirm")
			copies(1, 0, "after Confirm") // the RTU
			old()
			copies(0, 0, "when the old backlog has ended again")
			kit.OK(t, conn.Close(), "cm.Conn.Close")
			v.Advance(time.Hour) // until the end of the connection
		}
	}
	for i := range calls {
		c := &calls[i]
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		timeout := begin(ctx, c)
		v.Advance(timeout - 1)
		copies(0, 0, "before the timeout of a "+c.name)
		v.Advance(1)
		copies(1, 1, "after a timeout without a backlog")
		s.set(true)
		v.Advance(timeout)
		copies(0, 1, "after a timeout with a backlog")
		v.Advance(timeout)
		copies(0, 0, "after another timeout with a backlog")
		old := s.set(true)
		old()
		copies(1, 0, "when what has arrived was delivered")
		v.Advance(timeout)
		copies(0, 1, "after one more timeout with a backlog")
		old()
		copies(0, 0, "when the backlog of another timeout has ended")
		v.Advance(10 * timeout)
		sent, _ := s.took()
		kit.True(t, sent > 0, "copies of a "+c.name+" whose backlog does not end", "some", "none")
		cancel()
		kit.True(t, await(t, ended, "end of a "+c.name) != nil, "end of a "+c.name, "an error", "success")
	}
}
