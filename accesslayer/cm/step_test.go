package cm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/mad"
)

// drop makes the network lose all messages with one of the given attributes.
func (n *network) drop(attrs ...uint16) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.filter = func(d *datagram) bool { return !slices.Contains(attrs, d.attr()) }
}

// record is a list of observations in order.
type record struct {
	mu   sync.Mutex
	list []string
}

func (r *record) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf(format, args...))
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// startedConn is a Conn whose calls use the event-driven forms.
type startedConn struct{ cm.Conn }

func (s startedConn) Accept(ctx context.Context, cfg cm.AcceptConfig) error {
	outcome := make(chan error, 2)
	if err := s.StartAccept(ctx, cfg, func(err error) { outcome <- err }); err != nil {
		return err
	}
	return <-outcome
}

func (s startedConn) Disconnect(ctx context.Context, private []byte) (answer []byte, err error) {
	outcome := make(chan struct{})
	start := s.StartDisconnect(ctx, private, func(b []byte, e error) {
		answer, err = b, e
		close(outcome)
	})
	if start != nil {
		return nil, start
	}
	<-outcome
	return answer, err
}

func (s startedConn) LoadAlternate(ctx context.Context, cfg cm.AlternateConfig) (apr *mad.APR, err error) {
	outcome := make(chan struct{})
	start := s.StartLoadAlternate(ctx, cfg, func(a *mad.APR, e error) {
		apr, err = a, e
		close(outcome)
	})
	if start != nil {
		return nil, start
	}
	<-outcome
	return apr, err
}

// startedConnect returns a function like Connect that uses the event-driven form.
func startedConnect(m cm.Service) func(context.Context, cm.ConnectConfig) (cm.Conn, error) {
	return func(ctx context.Context, cfg cm.ConnectConfig) (c cm.Conn, err error) {
		outcome := make(chan struct{})
		start := m.StartConnect(ctx, cfg, func(n cm.Conn, e error) {
			c, err = n, e
			close(outcome)
		})
		if start != nil {
			return nil, start
		}
		<-outcome
		return c, err
	}
}

// A connection is established and disconnected with started steps only. Both ends observe outcomes and events in order.
func TestStartedSteps(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		var active, passive record
		events := func(r *record) func(cm.Conn, cm.Event) {
			return func(_ cm.Conn, e cm.Event) { r.add("event: %v", e.Type) }
		}
		var a, b cm.Conn
		l := p.b.listen()
		require.NoError(t, l.StartAccept(t.Context(), func(c cm.Conn, err error) {
			assert.NoError(t, err)
			b = c
			answer := reply()
			answer.OnEvent = events(&passive)
			assert.NoError(t, c.StartAccept(t.Context(), answer, func(err error) {
				passive.add("accept: %v", err)
				time.Sleep(time.Second) // delays the events
				passive.add("accept returns")
			}))
		}))
		request := p.a.requestTo(p.b, func(c *cm.ConnectConfig) { c.OnEvent = events(&active) })
		require.NoError(t, p.a.m.StartConnect(t.Context(), request, func(c cm.Conn, err error) {
			active.add("connect: %v", err)
			a = c
			assert.NoError(t, c.Confirm(nil))
		}))
		pass(time.Millisecond * 100)
		assert.Equal(t, []string{"accept: <nil>"}, passive.all())
		pass(time.Second)
		require.NoError(t, a.StartDisconnect(t.Context(), []byte("bye"), func(private []byte, err error) {
			active.add("disconnect: %v %s", err, strings.TrimRight(string(private), "\x00"))
		}))
		pass(100 * time.Millisecond)
		require.NoError(t, b.AnswerDisconnect([]byte("so long")))
		pass(time.Minute)
		assert.Equal(t, []string{"connect: <nil>", "disconnect: <nil> so long", "event: disconnected",
			"event: time-wait exit"}, active.all())
		assert.Equal(t, []string{"accept: <nil>", "accept returns", "event: established", "event: disconnect",
			"event: disconnected",
			"event: time-wait exit"}, passive.all())
		require.NoError(t, l.Close())
	})
}

// A DREQ that arrives instead of the RTU ends Accept, and its event follows. Blocking calls are allowed in done and in
// OnEvent.
func TestStartedAcceptEndedByDisconnect(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		var r record
		l := p.b.listen()
		p.net.drop(mad.AttrRTU)
		require.NoError(t, l.StartAccept(t.Context(), func(c cm.Conn, err error) {
			assert.NoError(t, err)
			answer := reply()
			answer.OnEvent = func(c cm.Conn, e cm.Event) {
				r.add("event: %v", e.Type)
				if e.Type == cm.EventDisconnect {
					assert.NoError(t, c.AnswerDisconnect(nil))
				}
			}
			assert.NoError(t, c.StartAccept(t.Context(), answer, func(err error) { r.add("accept: %v", err) }))
		}))
		require.NoError(t, p.a.m.StartConnect(t.Context(), p.a.requestTo(p.b), func(c cm.Conn, err error) {
			assert.NoError(t, err)
			assert.NoError(t, c.Confirm(nil))
			_, err = c.Disconnect(t.Context(), nil)
			r.add("disconnect: %v", err)
			assert.NoError(t, c.Close())
		}))
		pass(100 * time.Millisecond)
		assert.Equal(t, []string{"accept: <nil>", "event: disconnect", "event: disconnected", "disconnect: <nil>"},
			r.all())
		require.NoError(t, l.Close())
	})
}

// Both ends disconnect at the same time. The step of the end that has received the DREQ ends at once.
func TestStartedDisconnectOfBothEnds(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		var r record
		a, b := p.establish()
		require.NoError(t, a.StartDisconnect(t.Context(), nil, func(_ []byte, err error) { r.add("a: %v", err) }))
		pass(10 * time.Millisecond)
		require.Equal(t, cm.StateDREQRcvd, b.State())
		require.NoError(t, b.StartDisconnect(t.Context(), nil,
			func(private []byte, err error) { r.add("b: %v %v", private, err) }))
		pass(10 * time.Millisecond)
		assert.Equal(t, []string{"b: [] <nil>", "a: <nil>"}, r.all())
		require.ErrorIs(t, a.StartDisconnect(t.Context(), nil,
			func([]byte, error) { t.Error("the step did not start") }), ci.InvalidState)
	})
}

// Calls of StartAccept receive requests in the order of the calls. A canceled call receives none.
func TestStartedAcceptsAreInOrder(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		var r record
		l := p.b.listen()
		canceled, cancel := context.WithCancel(t.Context())
		for i, ctx := range []context.Context{t.Context(), canceled, t.Context(), t.Context()} {
			require.NoError(t, l.StartAccept(ctx, func(c cm.Conn, err error) {
				if err != nil {
					r.add("%d: %v", i, err)
					return
				}
				r.add("%d: QP %#x", i, c.Request().LocalQPN)
				assert.NoError(t, c.Close())
			}))
		}
		cancel()
		pass(time.Millisecond)
		for i := range 2 {
			require.NoError(t, p.a.m.StartConnect(t.Context(),
				p.a.requestTo(p.b, func(c *cm.ConnectConfig) { c.QP.Num += ci.QPN(i) }),
				func(_ cm.Conn, err error) { assert.ErrorContains(t, err, "rejected") }))
			pass(10 * time.Millisecond)
		}
		require.NoError(t, l.Close())
		pass(time.Millisecond)
		assert.Equal(t, []string{"1: context canceled", "0: QP 0x100", "2: QP 0x101", "3: Listener.StartAccept: " +
			"invalid state: the listener is closed: closed"},
			r.all())
	})
}

// A stepKind is a kind of step, with functions that start it and keep it pending.
type stepKind struct {
	name string
	lost []uint16 // attributes of the messages to lose
	// prepare returns the connection and the listener of the step, if it has them before it begins, and what else to
	// close in the end.
	prepare func(p *pair) (cm.Conn, cm.Listener, cm.Conn)
	wait    func(ctx context.Context, p *pair, c cm.Conn, l cm.Listener) error
	start   func(ctx context.Context, p *pair, c cm.Conn, l cm.Listener, done func(error)) error
	owner   func(p *pair) *node
}

func ownerA(p *pair) *node { return p.a }
func ownerB(p *pair) *node { return p.b }

func prepareNothing(*pair) (cm.Conn, cm.Listener, cm.Conn) { return nil, nil, nil }

func prepareActive(p *pair) (cm.Conn, cm.Listener, cm.Conn) {
	a, b := p.establish()
	return a, nil, b
}

func prepareRequest(p *pair) (cm.Conn, cm.Listener, cm.Conn) {
	l := p.b.listen()
	require.NoError(p.t, p.a.m.StartConnect(p.t.Context(), p.a.requestTo(p.b),
		func(_ cm.Conn, err error) { assert.Error(p.t, err) }))
	c, err := l.Accept(p.t.Context())
	require.NoError(p.t, err)
	return c, l, nil
}

func stepKinds() []stepKind {
	lookup := func(p *pair) cm.LookupConfig { return cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1)} }
	alternate := func(p *pair) cm.AlternateConfig { return cm.AlternateConfig{Path: p.a.path(2, p.b, 2)} }
	return []stepKind{
		{name: "Connect", lost: []uint16{mad.AttrREQ}, owner: ownerA, prepare: prepareNothing,
			wait: func(ctx context.Context, p *pair, _ cm.Conn, _ cm.Listener) error {
				c, err := p.a.m.Connect(ctx, p.a.requestTo(p.b))
				assert.Nil(p.t, c)
				return err
			},
			start: func(ctx context.Context, p *pair, _ cm.Conn, _ cm.Listener, done func(error)) error {
				return p.a.m.StartConnect(ctx, p.a.requestTo(p.b),
					func(c cm.Conn, err error) { assert.Nil(p.t, c); done(err) })
			}},
		{name: "Conn.Accept", lost: []uint16{mad.AttrREP, mad.AttrREJ}, owner: ownerB, prepare: prepareRequest,
			wait: func(ctx context.Context, _ *pair, c cm.Conn, _ cm.Listener) error { return c.Accept(ctx, reply()) },
			start: func(ctx context.Context, _ *pair, c cm.Conn, _ cm.Listener, done func(error)) error {
				return c.StartAccept(ctx, reply(), done)
			}},
		{name: "LoadAlternate", lost: []uint16{mad.AttrLAP}, owner: ownerA, prepare: prepareActive,
			wait: func(ctx context.Context, p *pair, c cm.Conn, _ cm.Listener) error {
				apr, err := c.LoadAlternate(ctx, alternate(p))
				assert.Nil(p.t, apr)
				return err
			},
			start: func(ctx context.Context, p *pair, c cm.Conn, _ cm.Listener, done func(error)) error {
				return c.StartLoadAlternate(ctx, alternate(p),
					func(apr *mad.APR, err error) { assert.Nil(p.t, apr); done(err) })
			}},
		{name: "Disconnect", lost: []uint16{mad.AttrDREQ}, owner: ownerA, prepare: prepareActive,
			wait: func(ctx context.Context, _ *pair, c cm.Conn, _ cm.Listener) error {
				_, err := c.Disconnect(ctx, nil)
				return err
			},
			start: func(ctx context.Context, _ *pair, c cm.Conn, _ cm.Listener, done func(error)) error {
				return c.StartDisconnect(ctx, nil, func(_ []byte, err error) { done(err) })
			}},
		{name: "Lookup", lost: []uint16{mad.AttrSIDRREQ}, owner: ownerA, prepare: prepareNothing,
			wait: func(ctx context.Context, p *pair, _ cm.Conn, _ cm.Listener) error {
				r, err := p.a.m.Lookup(ctx, lookup(p))
				assert.Nil(p.t, r)
				return err
			},
			start: func(ctx context.Context, p *pair, _ cm.Conn, _ cm.Listener, done func(error)) error {
				return p.a.m.StartLookup(ctx, lookup(p),
					func(r *cm.LookupReply, err error) { assert.Nil(p.t, r); done(err) })
			}},
		{name: "Listener.Accept", owner: ownerB, prepare: func(p *pair) (cm.Conn, cm.Listener, cm.Conn) {
			return nil,
				p.b.listen(), nil
		},
			wait: func(ctx context.Context, _ *pair, _ cm.Conn, l cm.Listener) error {
				_, err := l.Accept(ctx)
				return err
			},
			start: func(ctx context.Context, p *pair, _ cm.Conn, l cm.Listener, done func(error)) error {
				return l.StartAccept(ctx, func(c cm.Conn, err error) { assert.Nil(p.t, c); done(err) })
			}},
		{name: "Listener.AcceptLookup", owner: ownerB, prepare: func(p *pair) (cm.Conn, cm.Listener,
			cm.Conn) {
			return nil, p.b.listen(datagrams), nil
		},
			wait: func(ctx context.Context, _ *pair, _ cm.Conn, l cm.Listener) error {
				_, err := l.AcceptLookup(ctx)
				return err
			},
			start: func(ctx context.Context, p *pair, _ cm.Conn, l cm.Listener, done func(error)) error {
				return l.StartAcceptLookup(ctx, func(r cm.LookupRequest, err error) { assert.Nil(p.t, r); done(err) })
			}},
	}
}

// stepEnds are the causes that end a step without an answer of the peer. A function returns false if the cause does not
// apply to the kind of step.
var stepEnds = map[string]func(k *stepKind, p *pair, c cm.Conn, l cm.Listener, cancel func()) bool{
	"cancel": func(_ *stepKind, _ *pair, _ cm.Conn, _ cm.Listener, cancel func()) bool {
		cancel()
		return true
	},
	"timeout": func(k *stepKind, _ *pair, _ cm.Conn, _ cm.Listener, _ func()) bool { return k.lost != nil },
	"hot removal": func(k *stepKind, p *pair, _ cm.Conn, _ cm.Listener, _ func()) bool {
		x := k.owner(p)
		x.svc.unplug(x.port(1))
		return k.lost != nil
	},
	"Conn.Close": func(_ *stepKind, p *pair, c cm.Conn, _ cm.Listener, _ func()) bool {
		if c != nil {
			require.NoError(p.t, c.Close())
		}
		return c != nil
	},
	"Listener.Close": func(k *stepKind, p *pair, _ cm.Conn, l cm.Listener, _ func()) bool {
		if k.lost != nil {
			return false
		}
		require.NoError(p.t, l.Close())
		return true
	},
	"Service.Close": func(k *stepKind, p *pair, _ cm.Conn, _ cm.Listener, _ func()) bool {
		require.NoError(p.t, k.owner(p).m.Close())
		return true
	},
}

// Each cause ends each kind of step exactly once, with the error of the blocking form.
func TestStepsEndOnce(t *testing.T) {
	for _, k := range stepKinds() {
		for cause, end := range stepEnds {
			t.Run(k.name+"/"+cause, func(t *testing.T) {
				applies, waited := endOfStep(t, &k, end, false)
				if !applies {
					return
				}
				_, started := endOfStep(t, &k, end, true)
				require.Error(t, waited)
				assert.Equal(t, waited.Error(), strings.Replace(started.Error(), ".Start", ".", 1))
				for _, sentinel := range []error{context.Canceled, cm.ErrTimeout, cm.ErrClosed} {
					assert.Equal(t, errors.Is(waited, sentinel), errors.Is(started, sentinel), "%v", sentinel)
				}
				want := map[string]error{"cancel": context.Canceled, "timeout": cm.ErrTimeout,
					"hot removal": cm.ErrTimeout}[cause]
				if want == nil {
					want = cm.ErrClosed
				}
				assert.ErrorIs(t, started, want)
			})
		}
	}
}

// endOfStep returns the error with which a step ends for a cause. applies is false if the kind of step has no such
// cause.
func endOfStep(t *testing.T, k *stepKind, end func(*stepKind, *pair, cm.Conn, cm.Listener, func()) bool,
	start bool) (applies bool, err error) {
	inPairOn(t, ci.LinkInfiniBand, 2, cm.Config{}, func(t *testing.T, p *pair) {
		c, l, peer := k.prepare(p)
		p.net.drop(k.lost...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		outcomes := make(chan error, 8)
		if start {
			require.NoError(t, k.start(ctx, p, c, l, func(err error) { outcomes <- err }))
		} else {
			go func() { outcomes <- k.wait(ctx, p, c, l) }()
		}
		pass(10 * time.Millisecond)
		require.Empty(t, outcomes, "the step is pending")
		applies = end(k, p, c, l, cancel)
		pass(10 * time.Minute)
		if applies {
			require.Len(t, outcomes, 1)
			err = <-outcomes
		}
		// Later events do not end it again.
		p.net.drop()
		cancel()
		for _, c := range []cm.Conn{c, peer} {
			if c != nil {
				require.NoError(t, c.Close())
			}
		}
		if l != nil {
			require.NoError(t, l.Close())
		}
		pass(10 * time.Minute)
		if applies {
			require.Empty(t, outcomes)
		}
	})
	return applies, err
}

// Pending steps of all kinds, with cancelable contexts, have no goroutines.
func TestPendingStepsHoldNoGoroutine(t *testing.T) {
	const num = 50
	inPairOn(t, ci.LinkInfiniBand, 2, cm.Config{}, func(t *testing.T, p *pair) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var ended atomic.Int32
		l, other, lookups := p.b.listen(), p.b.listen(func(c *cm.ListenConfig) { c.Service++ }), p.b.listen(datagrams)
		request := func(i int, edit ...func(*cm.ConnectConfig)) cm.ConnectConfig {
			cfg := p.a.requestTo(p.b, edit...)
			cfg.QP.Num = ci.QPN(0x100 + i)
			return cfg
		}
		var requests []cm.Conn
		p.net.drop(mad.AttrREP)
		for i := range num { // StartAccept of each request follows below
			require.NoError(t, p.a.m.StartConnect(ctx, request(i), func(cm.Conn, error) { ended.Add(1) }))
			requests = append(requests, must(l.Accept(ctx)))
		}
		p.net.drop()
		var conns []cm.Conn
		for i := range 2 * num {
			answer := reply()
			answer.QP.Num = ci.QPN(0x2000 + i)
			a, _ := p.connect(l, request(1000+i), answer)
			conns = append(conns, a)
		}
		p.net.drop(mad.AttrREQ, mad.AttrREP, mad.AttrDREQ, mad.AttrLAP, mad.AttrSIDRREQ)
		pass(100 * time.Millisecond)
		synctest.Wait()
		before := testenv.NumGoroutine()
		for i := range num {
			answer := reply()
			answer.QP.Num = ci.QPN(0x1000 + i)
			require.NoError(t, requests[i].StartAccept(ctx, answer, func(error) { ended.Add(1) }))
			require.NoError(t, p.a.m.StartConnect(ctx, request(2000+i), func(cm.Conn, error) { ended.Add(1) }))
			require.NoError(t, conns[2*i].StartDisconnect(ctx, nil, func([]byte, error) { ended.Add(1) }))
			require.NoError(t, conns[2*i+1].StartLoadAlternate(ctx, cm.AlternateConfig{Path: p.a.path(2, p.b, 2)},
				func(*mad.APR, error) { ended.Add(1) }))
			require.NoError(t, p.a.m.StartLookup(ctx, cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1)},
				func(*cm.LookupReply, error) { ended.Add(1) }))
			require.NoError(t, other.StartAccept(ctx, func(cm.Conn, error) { ended.Add(1) }))
			require.NoError(t, lookups.StartAcceptLookup(ctx, func(cm.LookupRequest, error) { ended.Add(1) }))
		}
		pass(50 * time.Millisecond)
		synctest.Wait()
		require.Zero(t, ended.Load())
		assert.Equal(t, before, testenv.NumGoroutine(), "%d steps are pending", 8*num)
		cancel()
		synctest.Wait()
		assert.Equal(t, int32(8*num), ended.Load())
		assert.Equal(t, before, testenv.NumGoroutine())
		p.net.drop()
		for _, l := range []cm.Listener{l, other, lookups} {
			require.NoError(t, l.Close())
		}
		for _, c := range append(conns, requests...) {
			require.NoError(t, c.Close())
		}
	})
}

// Contexts, peers and Close race to end steps, on a network that loses messages. Each step ends once.
func TestStepsRace(t *testing.T) {
	const num = 100
	for seed := range uint64(3) {
		inPairOn(t, ci.LinkEthernet, 1, cm.Config{}, func(t *testing.T, p *pair) {
			p.net.loss, p.net.double = 0.2, 0.1
			rng := rand.New(rand.NewPCG(seed, 3))
			l := p.b.listen(func(c *cm.ListenConfig) { c.Backlog = num })
			var started, ended atomic.Int32
			twice := make(map[*atomic.Int32]string)
			once := func(what string) func() {
				started.Add(1)
				n := new(atomic.Int32)
				twice[n] = what
				return func() { n.Add(1); ended.Add(1) }
			}
			var mu sync.Mutex // of rng and twice
			short := func() (context.Context, context.CancelFunc) {
				mu.Lock()
				defer mu.Unlock()
				return context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(4*time.Second))))
			}
			locked := func(what string) func() {
				mu.Lock()
				defer mu.Unlock()
				return once(what)
			}
			begin := func(what string, start func(end func()) error) {
				end := locked(what)
				if err := start(end); err != nil {
					end() // the step did not start, and its done function is not called
				}
			}
			disconnect := func(c cm.Conn) {
				ctx, cancel := short()
				begin("disconnect", func(end func()) error {
					return c.StartDisconnect(ctx, nil,
						func([]byte, error) { end(); cancel(); assert.NoError(t, c.Close()) })
				})
			}
			var accept func()
			accept = func() {
				begin("listener", func(end func()) error {
					return l.StartAccept(t.Context(), func(c cm.Conn, err error) {
						end()
						if err != nil {
							return
						}
						accept()
						ctx, cancel := short()
						begin("accept", func(end func()) error {
							return c.StartAccept(ctx, reply(), func(err error) {
								end()
								cancel()
								if err != nil {
									assert.NoError(t, c.Close())
								}
							})
						})
					})
				})
			}
			accept()
			for i := range num {
				ctx, cancel := short()
				begin("connect", func(end func()) error {
					request := p.a.requestTo(p.b, func(c *cm.ConnectConfig) { c.QP.Num = ci.QPN(0x1000 + i) })
					return p.a.m.StartConnect(ctx, request, func(c cm.Conn, err error) {
						end()
						cancel()
						if err == nil && c.Confirm(nil) == nil {
							disconnect(c)
						}
					})
				})
				pass(time.Duration(i) * time.Millisecond)
			}
			pass(time.Minute)
			require.NoError(t, p.b.m.Close())
			pass(time.Hour)
			for n, what := range twice {
				assert.Equal(t, int32(1), n.Load(), what)
			}
			assert.Equal(t, started.Load(), ended.Load())
			t.Logf("%d steps", started.Load())
		})
	}
}

// A step that cannot start returns the error of the blocking form and does not call done.
func TestStepsThatDoNotStart(t *testing.T) {
	inPair(t, func(t *testing.T, p *pair) {
		a, b := p.establish()
		l := p.b.listen()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		never := func() { t.Error("done is called, and the step did not start") }
		conn := func(cm.Conn, error) { never() }
		bytes := func([]byte, error) { never() }
		looked := func(*cm.LookupReply, error) { never() }
		apr := func(*mad.APR, error) { never() }
		request := p.a.requestTo(p.b)
		where := cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1)}
		other := cm.AlternateConfig{Path: p.a.path(1, p.b, 1)}
		for name, err := range map[string]error{
			"Connect":       p.a.m.StartConnect(over, request, conn),
			"Lookup":        p.a.m.StartLookup(over, where, looked),
			"accept":        l.StartAccept(over, conn),
			"Accept":        b.StartAccept(over, reply(), func(error) { never() }),
			"Disconnect":    a.StartDisconnect(over, nil, bytes),
			"LoadAlternate": a.StartLoadAlternate(over, other, apr),
		} {
			assert.ErrorIs(t, err, context.Canceled, name)
		}
		ctx := t.Context()
		for name, err := range map[string]error{
			"Connect":           p.a.m.StartConnect(ctx, request, nil),
			"Lookup":            p.a.m.StartLookup(ctx, where, nil),
			"accept":            l.StartAccept(ctx, nil),
			"accept of lookups": l.StartAcceptLookup(ctx, nil),
			"Accept":            b.StartAccept(ctx, reply(), nil),
			"Disconnect":        a.StartDisconnect(ctx, nil, nil),
			"LoadAlternate":     a.StartLoadAlternate(ctx, other, nil),
			"private data":      a.StartDisconnect(ctx, make([]byte, mad.DREQPrivateLen+1), bytes),
			"private data of lookups": p.a.m.StartLookup(ctx,
				cm.LookupConfig{Private: make([]byte, mad.SIDRREQPrivateLen+1)}, looked),
		} {
			assert.ErrorIs(t, err, ci.InvalidParameter, name)
		}
		assert.ErrorIs(t, b.StartAccept(ctx, reply(), func(error) { never() }), ci.InvalidState)
		require.NoError(t, l.Close())
		assert.ErrorIs(t, l.StartAccept(ctx, conn), cm.ErrClosed)
		require.NoError(t, p.a.m.Close())
		assert.ErrorIs(t, p.a.m.StartConnect(ctx, request, conn), cm.ErrClosed)
		assert.ErrorIs(t, p.a.m.StartLookup(ctx, where, looked), cm.ErrClosed)
		require.NoError(t, b.Close())
	})
}

// QPs are destroyed while Connect and Accept are pending. A Service does not observe QPs, so the context or Conn.Close
// ends the steps, each once.
func TestStartedStepsOutliveQPs(t *testing.T) {
	onLinks(t, 1, func(t *testing.T, a, b *stack) {
		l := must(b.cm.Listen(cm.ListenConfig{Service: service1}))
		qa, qb := a.qp(ci.RC, nil), b.qp(ci.RC, nil)
		accepted, connected := make(chan error, 2), make(chan error, 2)
		requests := make(chan cm.Conn, 1)
		require.NoError(t, l.StartAccept(t.Context(), func(c cm.Conn, err error) {
			assert.NoError(t, err)
			requests <- c
		}))
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, a.cm.StartConnect(ctx, a.requestTo(b, qa, ci.RC),
			func(_ cm.Conn, err error) { connected <- err }))
		cb := <-requests
		require.NoError(t, qa.Destroy())
		assert.Empty(t, connected)
		cancel()
		require.ErrorIs(t, <-connected, context.Canceled)

		require.NoError(t, cb.Close())
		qa = a.qp(ci.RC, nil)
		require.NoError(t, l.StartAccept(t.Context(), func(c cm.Conn, err error) {
			assert.NoError(t, err)
			requests <- c
		}))
		require.NoError(t, a.cm.StartConnect(t.Context(), a.requestTo(b, qa, ci.RC),
			func(_ cm.Conn, err error) { connected <- err }))
		cb = <-requests
		require.NoError(t, cb.StartAccept(t.Context(), cm.AcceptConfig{QP: cm.QP{Num: qb.Num(), Type: ci.RC}},
			func(err error) { accepted <- err }))
		require.NoError(t, <-connected, "the REP has arrived")
		require.NoError(t, qb.Destroy())
		assert.Empty(t, accepted)
		require.NoError(t, cb.Close())
		require.ErrorIs(t, <-accepted, cm.ErrClosed)
		require.NoError(t, l.Close())
		require.NoError(t, a.cm.Close())
		require.NoError(t, b.cm.Close())
		assert.Empty(t, connected)
		assert.Empty(t, accepted)
	})
}
