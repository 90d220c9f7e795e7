package usersuite

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/ual"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// stage is a daemon on the target's adapters, and the applications of a case.
type stage struct {
	t     *validate.T
	fault *Fault
	trace *trace
	probe *probe // nil: the driver's own half
	al    *accesslayer.AL
	core  *kproxy.Server
	srv   *server.Server
	hcas  []ci.HCA // as they are registered
	guids []ci.GUID
	relay sync.WaitGroup
	clock clock.Clock // of the daemon's connections
}

// newStage returns a daemon with the probe in front of each adapter.
func newStage(t *validate.T) *stage {
	r := new(trace)
	return startStage(t, r, newProbe(r))
}

// startStage starts a daemon. p is nil if the driver's own half of user mode is judged; wraps then stand in front of
// the driver.
func startStage(t *validate.T, r *trace, p *probe, wraps ...func(ci.HCA) ci.HCA) *stage {
	return startStageAt(t, clock.Real(), r, p, wraps...)
}

// startStageAt is startStage with the source of time of the daemon's access layer.
func startStageAt(t *validate.T, clk clock.Clock, r *trace, p *probe, wraps ...func(ci.HCA) ci.HCA) *stage {
	t.Daemon()
	defer t.Setup()()
	log := slog.New(slog.NewTextHandler(io.Discard, nil)) // the cases check the results
	s := &stage{t: t, fault: faultOf(t.HCA()), trace: r, probe: p, al: accesslayer.New(accesslayer.Config{Logger: log,
		Clock: clk, PollInterval: -1, DrainTimeout: t.Remaining() / 2, DestroyBackoff: time.Millisecond}),
		clock: clock.Real()}
	t.Cleanup(s.close)
	for _, h := range t.HCAs() {
		if p != nil {
			h = p.over(h)
		}
		for _, wrap := range wraps {
			h = wrap(h)
		}
		if s.fault.Driver != nil {
			h = s.fault.Driver(h)
		}
		kit.OK(t, s.al.Register(h), "Registrar.Register")
		s.hcas, s.guids = append(s.hcas, h), append(s.guids, h.Info().GUID)
	}
	s.start(kproxy.Config{AL: s.al, Logger: log})
	return s
}

// start starts the daemon's process of the stage.
func (s *stage) start(cfg kproxy.Config) {
	var err error
	s.core, err = kproxy.New(cfg)
	kit.OK(s.t, err, "kproxy.New")
	s.srv = server.New(s.core, s.clock)
}

// close ends the daemon, which must succeed.
func (s *stage) close() {
	if err := errors.Join(s.stop(), s.al.Close()); err != nil {
		s.t.Report(validate.Failure{Where: "the daemon's end", Expected: "success", Got: kit.Describe(err)})
	}
}

// stop ends the daemon, and leaves the access layer.
func (s *stage) stop() error {
	if s.srv != nil {
		s.srv.Close()
	}
	s.relay.Wait()
	core := s.core
	s.srv, s.core = nil, nil
	if core == nil {
		return nil
	}
	return core.Close()
}

// connect returns a connection to the daemon, whose messages are recorded.
func (s *stage) connect() *native.Conn {
	client, relay := s.pair()
	theirs, daemon := s.pair()
	s.serve(daemon)
	s.relay.Go(func() { Relay(relay, theirs, s.message) })
	return client
}

// message records a request.
func (s *stage) message(c schema.Command) { s.trace.add("message %s", c.Verb()) }

// pair returns two connected ends.
func (s *stage) pair() (a, b *native.Conn) {
	a, b, err := native.Pair()
	if errors.Is(err, errors.ErrUnsupported) {
		s.t.Skip("connections between processes need Linux")
	}
	if err != nil {
		s.t.Harness("socket pair: %v", err)
	}
	return a, b
}

// app is an application with the cases' library, or with others.
type app struct {
	s    *stage
	conn *native.Conn
	c    *ual.Client
	lib  *library
}

// app starts an application with the library of the cases.
func (s *stage) app() *app {
	lib := &library{trace: s.trace}
	a := s.with(lib.vendor())
	a.lib = lib
	return a
}

// with starts an application with user libraries.
func (s *stage) with(libs ...*ci.UserLibrary) *app {
	defer s.t.Setup()()
	if s.fault.Library != nil {
		for i, l := range libs {
			libs[i] = s.fault.Library(l)
		}
	}
	a := &app{s: s, conn: s.connect()}
	var err error
	a.c, err = ual.New(a.conn, ual.Config{Name: "certifier", Libraries: libs})
	kit.OK(s.t, err, "ual.New")
	s.t.Cleanup(a.close)
	return a
}

// close ends the application. If the daemon does not end its side in time, the connection is cut, so that the case ends
// with a finding.
func (a *app) close() {
	t := a.s.t
	limit := max(t.Remaining(), time.Until(t.Deadline())/4)
	late := time.AfterFunc(limit, func() {
		t.Report(validate.Failure{Where: "ual.Client.Close", Expected: "the end of the connection by the daemon",
			Got: "none in " + limit.String()})
		a.cut()
	})
	defer late.Stop()
	if err := a.c.Close(); err != nil {
		t.Report(validate.Failure{Where: "ual.Client.Close", Expected: "success", Got: kit.Describe(err)})
	}
}

// hca returns an adapter as the application has it.
func (a *app) hca(i int) ci.HCA {
	h, err := a.c.HCA(a.s.guids[i])
	kit.OK(a.s.t, err, "ual.Client.HCA")
	if a.s.fault.Client != nil {
		h = a.s.fault.Client(h)
	}
	return h
}

// open opens the adapter under test.
func (a *app) open() *kit.CA { return kit.OpenHCA(a.s.t, a.hca(0)) }

// pair returns a connection between the first two adapters, or within the only one.
func (a *app) pair(opts ...kit.Option) *kit.Pair {
	x := a.open()
	y := x
	if len(a.s.guids) > 1 {
		y = kit.OpenHCA(a.s.t, a.hca(1))
	}
	c := kit.Options(x, y, append(opts, kit.Type(ci.RC))...)
	p := &kit.Pair{A: x.End(c), B: y.End(c)}
	kit.Connect(p.A.QP, p.B.QP)
	return p
}

// cut ends the application's connection at once, as the system does when its process is killed.
func (a *app) cut() { a.conn.Close() }

// extra returns the objects at the driver beyond those of base, or "".
func (s *stage) extra(base map[string]int) string {
	var list []string
	for kind, n := range s.probe.living() {
		if d := n - base[kind]; d != 0 {
			list = append(list, fmt.Sprintf("%d %s", d, kind))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// gone waits until the daemon has no client and the driver no object of one.
func (s *stage) gone(where string) {
	s.await(where, "no client and no object of it", func() string {
		clients := len(s.core.Sessions())
		if s.probe == nil {
			if clients == 0 {
				return ""
			}
			return fmt.Sprintf("%d clients", clients)
		}
		if live := s.probe.living(); clients > 0 || len(live) > 0 {
			return fmt.Sprintf("%d clients, %v", clients, live)
		}
		return ""
	})
}

// await waits until found returns "". Otherwise the case fails at its deadline, with the last result.
func (s *stage) await(where, expected string, found func() string) {
	late := time.NewTimer(s.t.Remaining())
	defer late.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		got := found()
		if got == "" {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			s.t.Fail(validate.Failure{Where: where, Expected: expected, Got: got})
		}
	}
}
