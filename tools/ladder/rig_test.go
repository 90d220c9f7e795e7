package ladder_test

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/tools/ladder"
)

// Times of the runs.
const (
	latency = 200 * time.Microsecond // latency of each packet
	step    = 150 * time.Microsecond // time that a consumer takes for each call
)

const (
	service  mad.ServiceID = 0x1001
	lifeTime mad.TimeExp   = 10 // lifetime of a packet: 4.2 ms
)

// pass lets virtual time pass in a bubble.
func pass(d time.Duration) { time.Sleep(d) }

// A world has two ends in a bubble and records their notes. Each end's consumer is one goroutine. States are compared
// when all goroutines wait, before time advances, so that each run is the same.
type world struct {
	t    *testing.T
	net  *sim.Network
	rec  *ladder.Recorder
	ends [2]*end
	kick chan struct{}

	mu   sync.Mutex
	lose func(name string) bool // number of packets to lose by the name that Decode returns; nil: none
	down bool                   // state of the link between the first ports
	sent int                    // packets that the network received during the run
	gone int                    // lost packets
	on   bool
}

// kicking is a clock that compares the states after everything that it triggers.
type kicking struct {
	clock.Clock
	w *world
}

func (k kicking) AfterFunc(d time.Duration, f func()) clock.Timer {
	return k.Clock.AfterFunc(d, func() { f(); k.w.look() })
}

func (w *world) look() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// run executes a run in a bubble with two ends that have the given number of ports each. It returns the chart, and the
// numbers of packets sent and lost.
func run(t *testing.T, s scene) (chart *ladder.Chart, sent, lost int) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, kick: make(chan struct{}, 1)}
		clk := kicking{clock.Real(), w}
		var addrs [2][]netip.Addr
		for side := range addrs {
			for port := range max(s.ports, 1) {
				addrs[side] = append(addrs[side], netip.AddrFrom4([4]byte{10, 0, byte(port + 1), byte(side + 1)}))
			}
		}
		w.rec = ladder.NewRecorder(clk, s.title, s.ends, addrs)
		w.net = sim.NewNetwork(sim.NetworkConfig{Clock: clk, Latency: latency, Filter: w.judge, Watch: w.watch})
		for side := range w.ends {
			w.ends[side] = newEnd(w, ladder.Side(side), clk, addrs[side])
		}
		synctest.Wait()
		w.rec.Start()
		w.mu.Lock()
		w.on = true
		w.mu.Unlock()
		var consumers sync.WaitGroup
		for side, f := range s.consumers {
			consumers.Go(func() { f(w, w.ends[side]) })
		}
		done := make(chan struct{})
		go func() { consumers.Wait(); close(done) }()
		for running := true; running; {
			select {
			case <-w.kick:
			case <-done:
				running = false
			}
			synctest.Wait()
			for _, e := range w.ends {
				e.notice()
			}
		}
		pass(2 * latency) // packets in flight arrive
		synctest.Wait()
		w.mu.Lock()
		w.on, sent, lost = false, w.sent, w.gone
		w.mu.Unlock()
		var err error
		chart, err = w.rec.Stop()
		require.NoError(t, err)
		for _, e := range w.ends {
			e.close()
		}
	})
	return chart, sent, lost
}

func (w *world) judge(d *sim.Datagram) impair.Verdict {
	text, _, err := ladder.Decode(d.Data)
	require.NoError(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down && d.From.As4()[2] == 1 || w.lose != nil && w.lose(text.Name) {
		return impair.Drop
	}
	return impair.Pass
}

func (w *world) watch(d *sim.Datagram) {
	w.mu.Lock()
	if w.on && !d.Arrived {
		w.sent++
		if d.Verdict == impair.Drop {
			w.gone++
		}
	}
	w.mu.Unlock()
	w.rec.Watch(d)
}

// loseFirst loses the first packet of each of these names.
func (w *world) loseFirst(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = func(name string) bool {
		i := slices.Index(names, name)
		if i >= 0 {
			names = slices.Delete(names, i, i+1)
		}
		return i >= 0
	}
}

// pull disconnects the link between the first ports.
func (w *world) pull() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
}

// An end is an HCA with its access layer and manager, and its consumer's objects.
type end struct {
	w    *world
	side ladder.Side
	al   *accesslayer.AL
	hca  *reference.HCA
	mads *mads.Manager
	cm   *cm.Manager
	c    *accesslayer.Client
	ca   *accesslayer.CA
	pd   *accesslayer.PD
	cq   *accesslayer.CQ
	mr   *accesslayer.MR
	buf  []byte

	mu       sync.Mutex
	qp       *accesslayer.QP
	conn     cm.Conn
	qpState  string              // the last recorded QP state
	states   map[uint32]cm.State // the last recorded connection states
	qpEvents chan ci.EventType
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newEnd(w *world, side ladder.Side, clk clock.Clock, addrs []netip.Addr) *end {
	e := &end{w: w, side: side, buf: make([]byte, 1<<14), qpEvents: make(chan ci.EventType, 8)}
	var ports []rvt.Port
	for _, a := range addrs {
		ports = append(ports, testenv.Must(sim.New(w.net, sim.Config{Addr: a})))
	}
	seed := [32]byte{byte(side) + 1}
	qpns := map[ladder.Side]ci.QPN{ladder.Left: 0x11, ladder.Right: 0x22}
	e.hca = must(reference.New(reference.Config{GUID: 0x1111*ci.GUID(side+1) | 0x02dd<<48, Ports: ports, Clock: clk,
		Rand: rand.NewChaCha8(seed),
		QPN:  func(c ci.QPCreate) (ci.QPN, error) { qpns[side]++; return qpns[side] - 1, nil }}))
	e.al = accesslayer.New(accesslayer.Config{Clock: clk, PollInterval: -1,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(w.t, e.al.Register(e.hca))
	e.mads = must(mads.New(e.al, mads.Config{FirstAgent: 1 + uint32(side)}))
	e.cm = must(cm.New(e.al, e.mads, cm.Config{Clock: clk, Rand: rand.New(rand.NewChaCha8(seed))}))
	e.c = must(e.al.Open(accesslayer.ClientConfig{Name: "ladder"}))
	e.ca = must(e.c.OpenCA(e.hca.Info().GUID, nil))
	e.pd = must(e.ca.NewPD(ci.PDNormal))
	e.cq = must(e.pd.NewCQ(ci.CQCreate{Size: 256}, accesslayer.CQHandler{}))
	e.mr = must(e.pd.NewMR(ci.MRCreate{Memory: ci.Bytes(e.buf), Access: ci.LocalWrite | ci.ZeroBased}))
	return e
}

func (e *end) close() {
	assert.NoError(e.w.t, e.cm.Close())
	assert.NoError(e.w.t, e.mads.Close())
	assert.NoError(e.w.t, e.al.Close())
	assert.NoError(e.w.t, e.hca.Close())
}

// notice records state changes.
func (e *end) notice() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := map[uint32]cm.State{}
	for _, c := range e.cm.Conns() {
		now[c.ID] = c.State
		if s, ok := e.states[c.ID]; !ok || s != c.State {
			e.w.rec.Note(e.side, ladder.ConnState, c.State.String())
		}
	}
	for id := range e.states {
		if _, ok := now[id]; !ok {
			e.w.rec.Note(e.side, ladder.ConnState, cm.StateClosed.String())
		}
	}
	e.states = now
	if e.qp == nil {
		return
	}
	if a, err := e.qp.Query(); err == nil {
		s := "QP " + a.State.String()
		if a.State == ci.QPRTS && a.APM != ci.APMMigrated {
			s += map[ci.APMState]string{ci.APMRearm: ", rearmed", ci.APMArmed: ", armed"}[a.APM]
		} else if a.State == ci.QPRTS && a.Port == 2 {
			s += ", on port 2"
		}
		if s != e.qpState {
			e.qpState = s
			e.w.rec.Note(e.side, ladder.QPState, s)
		}
	}
}

// call records a call of the consumer after the time that it takes.
func (e *end) call(name string) {
	pass(step)
	e.w.rec.Note(e.side, ladder.Call, name)
	e.w.look()
}

// event waits for an event of the connection.
func (e *end) event(want cm.EventType) cm.Event {
	ctx, cancel := context.WithTimeout(e.w.t.Context(), time.Hour)
	defer cancel()
	ev, err := e.connection().Next(ctx)
	require.NoError(e.w.t, err)
	require.Equal(e.w.t, want, ev.Type)
	e.happens("Event" + eventNames[want])
	return ev
}

// happens records an event that is delivered to the consumer.
func (e *end) happens(event string) {
	e.w.rec.Note(e.side, ladder.Event, event)
	e.w.look()
}

var eventNames = map[cm.EventType]string{cm.EventEstablished: "Established", cm.EventDelayed: "Delayed",
	cm.EventDisconnect:   "Disconnect",
	cm.EventDisconnected: "Disconnected", cm.EventAlternate: "Alternate", cm.EventTimeWaitExit: "TimeWaitExit"}

// qpEvent waits for an event of the QP.
func (e *end) qpEvent(want ci.EventType, name string) {
	require.Equal(e.w.t, want, <-e.qpEvents)
	e.happens(name)
}

func (e *end) connection() cm.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.conn
}

// use makes a connection the current one of the consumer.
func (e *end) use(c cm.Conn, err error) cm.Conn {
	require.NoError(e.w.t, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn = c
	return c
}

// newQP creates the end's QP.
func (e *end) newQP(typ ci.QPType) *accesslayer.QP {
	q := must(e.pd.NewQP(ci.QPCreate{Type: typ, SendCQ: e.cq, RecvCQ: e.cq,
		QPCaps: ci.QPCaps{SendDepth: 16, RecvDepth: 16,
			SendSGE: 1, RecvSGE: 1}},
		func(_ *accesslayer.QP, ev ci.Event) { e.qpEvents <- ev.Type }))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.qp, e.qpState = q, "QP Reset"
	return q
}

// modify moves the QP through states with the connection's attributes. Each step takes its time. Receives are posted in
// Init.
func (e *end) modify(states ...ci.QPState) {
	for _, to := range states {
		pass(step)
		require.NoError(e.w.t, cm.Modify(e.qp, e.connection(), to, ci.LocalWrite))
		if to == ci.QPInit {
			e.post(4)
		}
		e.w.look()
	}
}

func (e *end) post(n int) {
	for i := range n {
		must(e.qp.PostRecv([]ci.RecvWR{{ID: 100 + uint64(i),
			SGL: []ci.SGE{e.mr.Region().SGE(uint64(1024*(i+1)), 1024)}}}))
	}
}

// send sends a text without waiting.
func (e *end) send(text string, to ...ci.Dest) {
	e.call("PostSend")
	copy(e.buf, text)
	wr := ci.SendWR{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled,
		SGL: []ci.SGE{e.mr.Region().SGE(0, uint32(len(text)))}}
	if len(to) > 0 {
		wr.To = to[0]
	}
	must(e.qp.PostSend([]ci.SendWR{wr}))
}

// complete waits for a successful completion.
func (e *end) complete(op ci.WCOp) {
	ctx, cancel := context.WithTimeout(e.w.t.Context(), time.Hour)
	defer cancel()
	wc := make([]ci.WC, 1)
	require.Equal(e.w.t, 1, must(e.cq.Wait(ctx, wc)))
	require.Equal(e.w.t, ci.WCSuccess, wc[0].Status)
	require.Equal(e.w.t, op, wc[0].Op)
}

// over destroys the QP after the connection has ended and waits until its number may be reused.
func (e *end) over() {
	pass(step)
	require.NoError(e.w.t, e.qp.Modify(ci.ToError()))
	e.w.look()
	e.event(cm.EventDisconnected)
	e.event(cm.EventTimeWaitExit)
}

func (e *end) peer() *end { return e.w.ends[1-e.side] }

func (e *end) attr(port uint8) *ci.PortAttr { return must(e.ca.Adapter().Port(port)) }

// path returns the path from a port of this end to the same port of the other.
func (e *end) path(port uint8) cm.Path {
	return cm.Path{Port: mads.Port{CA: e.hca.Info().GUID, Num: port}, LifeTime: lifeTime,
		AV: ci.AVAttr{Port: port, Global: true, GRH: ci.GRH{DGID: e.peer().attr(port).GIDs[0].GID, HopLimit: 64}}}
}

// ask returns a request. Each manager may take 67 ms for an answer.
func (e *end) ask(edit ...func(*cm.ConnectConfig)) cm.ConnectConfig {
	c := cm.ConnectConfig{Service: service, QP: cm.QP{Num: e.qp.Num(), Type: ci.RC, StartPSN: e.psn()},
		Primary:            e.path(1),
		ResponderResources: 1, InitiatorDepth: 1, RetryCount: 2, RNRRetry: 7, ResponseTime: 14, RemoteResponseTime: 14}
	for _, f := range edit {
		f(&c)
	}
	return c
}

// psn returns the starting PSN of the other end.
func (e *end) psn() ci.PSN { return 0x100000 * ci.PSN(e.side+1) }

// reply accepts a request. The starting PSN is the one that the manager chose and QPAttr returned.
func (e *end) reply() cm.AcceptConfig {
	return cm.AcceptConfig{QP: cm.QP{Num: e.qp.Num(), Type: ci.RC}, ResponderResources: 1,
		InitiatorDepth: 1, RNRRetry: 7}
}
