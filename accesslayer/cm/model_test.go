package cm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// plan is the behavior of the two consumers of a connection.
type plan struct {
	from    int // the node that connects
	wait    int // milliseconds before it connects
	passive string
	think   int // milliseconds before Accept, and before Confirm
	end     string
	hold    int // milliseconds until the connection is closed
	lap     bool
	limits  [2]int // milliseconds that Connect and Accept may take; 0: no limit
	started bool   // the consumers use the event-driven forms of their calls
}

var (
	passives = []string{"accept", "accept", "accept", "delay", "reject", "close", "handoff", "ignore"}
	limits   = []int{0, 0, 0, 0, 0, 0, 1, 2, 3, 600, 3000}
	endings  = []string{"active", "passive", "both", "close active", "close passive", "close both"}
)

func drawPlan(t *rapid.T) plan {
	return plan{from: rapid.IntRange(0, 1).Draw(t, "from"), wait: rapid.IntRange(0, 3000).Draw(t, "wait"),
		passive: rapid.SampledFrom(passives).Draw(t, "passive"), think: rapid.SampledFrom([]int{0, 1, 300,
			2500}).Draw(t, "think"),
		end: rapid.SampledFrom(endings).Draw(t, "end"), hold: rapid.SampledFrom([]int{0, 2, 500}).Draw(t,
			"hold"), lap: rapid.Bool().Draw(t, "lap"),
		started: rapid.Bool().Draw(t, "started"),
		limits: [2]int{rapid.SampledFrom(limits).Draw(t, "connect in"),
			rapid.SampledFrom(limits).Draw(t, "accept in")}}
}

// outcome is what the two consumers observed.
type outcome struct {
	plan             plan
	connect, confirm error
	accept           error
	accepted         bool   // Accept was called
	private          []byte // of the REP
	active           cm.Conn
	passives         []cm.Conn // for the one request
	lap              error
	disconnects      []error
}

// TestModel runs random consumers on two managers over a network that loses, duplicates and reorders datagrams. It
// checks three properties. The active consumer learns what the passive one did with its request. Both ends agree. No
// state is left in the end.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newNetwork(rapid.Uint64().Draw(rt, "seed"))
		n.loss = rapid.SampledFrom([]float64{0, 0.05, 0.2}).Draw(rt, "loss")
		n.double = rapid.SampledFrom([]float64{0, 0.2}).Draw(rt, "double")
		n.reorder = rapid.SampledFrom([]float64{0, 0.3}).Draw(rt, "reorder")
		typ := rapid.SampledFrom([]ci.Link{ci.LinkInfiniBand, ci.LinkEthernet}).Draw(rt, "link")
		plans := rapid.SliceOfN(rapid.Custom(drawPlan), 1, 12).Draw(rt, "plans")
		w := &world{outcomes: make([]outcome, len(plans))}
		tables := make([]map[string]int, 2)
		synctest.Test(t, func(t *testing.T) {
			l := newLink(typ)
			w.t, w.nodes = t, []*node{newNode(t, n, l, 2, cm.Config{}), newNode(t, n, l, 2, cm.Config{})}
			w.run(plans)
			for i, x := range w.nodes {
				tables[i] = cm.Tables(x.m)
				x.close()
			}
		})
		for i := range w.outcomes {
			w.outcomes[i].check(rt)
		}
		for _, ts := range tables {
			for table, n := range ts {
				require.Zero(rt, n, table)
			}
		}
	})
}

type world struct {
	t        *testing.T
	nodes    []*node
	mu       sync.Mutex
	outcomes []outcome
	wg       sync.WaitGroup
}

const handedOff mad.ServiceID = 0x5000

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func (w *world) run(plans []plan) {
	ctx, stop := context.WithCancel(w.t.Context())
	var listening, serving sync.WaitGroup // listening adds to serving
	var ls []cm.Listener
	for _, x := range w.nodes {
		for _, service := range []mad.ServiceID{service1, handedOff} {
			l := x.listen(func(c *cm.ListenConfig) { c.Service = service })
			ls = append(ls, l)
			listening.Go(func() {
				for {
					c, err := l.Accept(ctx)
					if err != nil {
						return
					}
					serving.Go(func() { w.serve(c, service == handedOff) })
				}
			})
		}
	}
	for i, p := range plans {
		w.outcomes[i].plan = p
		w.wg.Go(func() {
			time.Sleep(ms(p.wait))
			w.connect(i, p)
		})
	}
	w.wg.Wait()
	time.Sleep(time.Hour) // remaining connections end by timeouts
	stop()
	listening.Wait()
	serving.Wait()
	for _, l := range ls {
		require.NoError(w.t, l.Close())
	}
	time.Sleep(time.Hour)
	synctest.Wait()
}

// edit changes the outcome of a connection.
func (w *world) edit(i int, f func(o *outcome)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.outcomes[i])
}

// within returns a context that ends after n milliseconds.
func (w *world) within(n int) (context.Context, context.CancelFunc) {
	if n == 0 {
		return w.t.Context(), func() {}
	}
	return context.WithTimeout(w.t.Context(), ms(n))
}

// connect runs the active consumer.
func (w *world) connect(i int, p plan) {
	from, to := w.nodes[p.from], w.nodes[1-p.from]
	ctx, cancel := w.within(p.limits[0])
	defer cancel()
	connect := from.m.Connect
	if p.started {
		connect = startedConnect(from.m)
	}
	c, err := connect(ctx, from.requestTo(to, func(c *cm.ConnectConfig) {
		c.QP.Num, c.MaxRetries = ci.QPN(0x1000+i), 15
		c.Private = binary.BigEndian.AppendUint32(nil, uint32(i))
	}))
	w.edit(i, func(o *outcome) { o.connect, o.active = err, c })
	if err != nil {
		return
	}
	if p.started {
		c = startedConn{c}
	}
	time.Sleep(ms(p.think))
	err = c.Confirm(nil)
	w.edit(i, func(o *outcome) { o.confirm, o.private = err, c.Reply().Private() })
	if err != nil {
		_ = c.Close()
		return
	}
	if p.lap {
		_, err := c.LoadAlternate(w.t.Context(), cm.AlternateConfig{Path: from.path(2, to, 2)})
		w.edit(i, func(o *outcome) { o.lap = err })
	}
	w.finish(i, c, p, "active")
}

// serve runs the passive consumer.
func (w *world) serve(c cm.Conn, handed bool) {
	i := int(binary.BigEndian.Uint32(c.Request().Private()))
	var p plan
	w.edit(i, func(o *outcome) { p = o.plan })
	if p.passive == "handoff" && !handed {
		if err := c.Handoff(handedOff); err != nil {
			_ = c.Close()
		}
		return
	}
	w.edit(i, func(o *outcome) { o.passives = append(o.passives, c) })
	switch p.passive {
	case "delay":
		_ = c.Delay(20, nil)
	case "reject":
		time.Sleep(ms(p.think))
		_ = c.Reject(mad.RejConsumer, nil, []byte("no"))
		return
	case "close":
		_ = c.Close()
		return
	case "ignore": // the manager sends MRAs until the peer gives up
		return
	}
	if p.started {
		c = startedConn{c}
	}
	time.Sleep(ms(p.think))
	answer := reply()
	answer.QP.Num = ci.QPN(0x2000 + i)
	answer.Private = binary.BigEndian.AppendUint32(nil, uint32(i))
	ctx, cancel := w.within(p.limits[1])
	defer cancel()
	err := c.Accept(ctx, answer)
	w.edit(i, func(o *outcome) { o.accept, o.accepted = err, true })
	if err == nil {
		w.finish(i, c, p, "passive")
	}
}

// finish runs a consumer of an established connection until the connection ends.
func (w *world) finish(i int, c cm.Conn, p plan, role string) {
	watch := time.AfterFunc(30*time.Minute,
		func() { _ = c.Close() }) // the REJ of a peer that gave up may be lost
	defer watch.Stop()
	done := make(chan struct{})
	var events sync.WaitGroup
	events.Go(func() {
		defer close(done)
		for {
			e, err := c.Next(context.Background())
			switch {
			case err != nil:
				return
			case e.Type == cm.EventDisconnect:
				_ = c.AnswerDisconnect(nil)
			case e.Type == cm.EventAlternate:
				_ = c.AnswerAlternate(mad.APRLoaded, nil, nil)
			}
		}
	})
	time.Sleep(ms(p.hold))
	switch p.end {
	case role, "both":
		_, err := c.Disconnect(w.t.Context(), nil)
		w.edit(i, func(o *outcome) { o.disconnects = append(o.disconnects, err) })
	case "close " + role, "close both":
		_ = c.Close()
	}
	<-done
	events.Wait()
}

// check compares the outcome with the plan.
func (o *outcome) check(t *rapid.T) {
	p := o.plan
	require.LessOrEqual(t, len(o.passives), 1, "%+v: one request, one Conn", p)
	var rej *cm.RejectError
	kind := p.passive
	if p.limits != [2]int{} {
		kind = "limits"
	}
	switch kind {
	case "limits": // if one end gives up, the other loses its connection soon
		if o.connect != nil && !errors.Is(o.connect, context.DeadlineExceeded) && !errors.Is(o.connect, cm.ErrTimeout) {
			require.ErrorAs(t, o.connect, &rej, "%+v", p)
		}
		if len(o.passives) == 1 && o.accepted && o.accept == nil {
			require.NoError(t, o.connect, "%+v: Accept succeeded, so Connect must have", p)
			require.NoError(t, o.confirm, "%+v", p)
		}
	case "accept", "delay", "handoff":
		require.NoError(t, o.connect, "%+v", p)
		require.Len(t, o.passives, 1)
		if o.confirm == nil {
			require.NoError(t, o.accept, "%+v", p)
			require.Equal(t, o.active.ID(), o.passives[0].RemoteID())
			require.Equal(t, o.passives[0].ID(), o.active.RemoteID())
			require.Equal(t, binary.BigEndian.Uint32(o.active.Request().Private()), binary.BigEndian.Uint32(o.private),
				"the reply is that of this request")
			for _, err := range o.disconnects {
				require.True(t, err == nil || errors.Is(err, ci.InvalidState), "%+v: %v", p, err)
			}
			if p.lap && o.lap != nil { // the other end may have disconnected
				require.ErrorIs(t, o.lap, ci.InvalidState, "%+v", p)
			}
		} else {
			require.ErrorIs(t, o.confirm, ci.InvalidState)
		}
	case "reject", "close":
		require.ErrorAs(t, o.connect, &rej, "%+v", p)
		require.Equal(t, mad.RejConsumer, rej.Reason)
		if p.passive == "reject" {
			require.Equal(t, private([]byte("no"), mad.REJPrivateLen), rej.Private)
		}
	case "ignore":
		require.Error(t, o.connect)
		if !errors.Is(o.connect, cm.ErrTimeout) {
			require.ErrorAs(t, o.connect, &rej)
			require.Equal(t, mad.RejTimeout, rej.Reason)
		}
	}
	for _, c := range append(o.passives, o.active) {
		if c != nil {
			require.Equal(t, cm.StateClosed, c.State(), "%+v", p)
			_, err := c.Next(context.Background())
			for err == nil {
				_, err = c.Next(context.Background())
			}
			require.ErrorIs(t, err, cm.ErrClosed)
		}
	}
}
