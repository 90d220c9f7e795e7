package alsuite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Consumption of completions by polling and by events.
var pumps = area()

var CIPump01 = pumps.Must("CI-Pump-01", "CI access layer", "accesslayer, CQ.NewPump",
	"A pump delivers every completion once and in order, in each of its modes: polling, sleeping, or both.")

var (
	_ = pumps.Case(pumpIn("event", accesslayer.PollEvent), CIPump01)
	_ = pumps.Case(pumpIn("busy", accesslayer.PollBusy), CIPump01)
	_ = pumps.Case(pumpIn("hybrid", accesslayer.PollHybrid), CIPump01)
)

// pumpIn returns the case for a poll mode.
func pumpIn(name string, mode accesslayer.PollMode) validate.Case {
	return validate.Case{
		ID:    "al.pump." + name,
		Title: "pump 600 messages, mode " + name,
		Run:   func(t *validate.T) { pump(t, mode) },
	}
}

func pump(t *validate.T, mode accesslayer.PollMode) {
	const messages, depth = 600, 64
	s := registered(t)
	p := s.pair(kit.Depth(depth))
	p.B.Recv(p.B.RecvWRs(depth, 1)...)
	posted := uint64(depth)
	next := uint64(1)
	finished := make(chan error, 8)
	handed, err := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ").NewPump(accesslayer.PumpConfig{Mode: mode,
		Handle: func(wcs []ci.WC) {
			for _, wc := range wcs {
				if wc.ID != next || wc.Status != ci.WCSuccess {
					finished <- fmt.Errorf("delivered %s, but request %d is next", kit.Completions([]ci.WC{wc}), next)
					return
				}
				if next == messages {
					finished <- nil
				}
				next++
				if posted < messages {
					posted++
					if n, err := p.B.PostRecv([]ci.RecvWR{p.B.RecvWR(posted, int(posted%depth), 1)}); n != 1 {
						finished <- err
						return
					}
				}
			}
		}})
	kit.OK(t, err, "CQ.NewPump")
	for sent := 0; sent < messages; sent += depth / 2 {
		n := min(depth/2, messages-sent)
		p.A.Send(p.A.SendWRs(n)...)
		p.A.CQ.Wait(n)
	}
	kit.OK(t, expect(t, finished, fmt.Sprintf("delivery of %d completions", messages)),
		"completions that the pump delivers")
	none(t, finished, "completions after the last one")
	kit.OK(t, handed.Destroy(), "Pump.Destroy")
	p.B.RecvCQ.Empty()
}

var CIPump02 = pumps.Must("CI-Pump-02", "CI access layer", "accesslayer, CQ.Wait",
	"A CQ.Wait on an empty CQ returns when the next completion arrives.")

var _ = pumps.Case(validate.Case{ID: "al.wait", Title: "wait for single completions", Run: wait}, CIPump02)

func wait(t *validate.T) {
	s := registered(t)
	p := s.pair()
	cq := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ")
	got := make(chan error, 1)
	for i := range uint64(50) {
		waiting := make(chan struct{})
		t.Go(func() {
			wc := make([]ci.WC, 4)
			close(waiting)
			n, err := cq.Wait(t.Context(), wc)
			if err == nil && (n != 1 || wc[0].ID != i) {
				err = fmt.Errorf("CQ.Wait returned %d completions: %s", n, kit.Completions(wc[:n]))
			}
			got <- err
		})
		<-waiting
		p.B.Recv(p.B.RecvWR(i, 0, 1))
		p.A.Send(p.A.SendWR(i, 0, 1))
		kit.OK(t, expect(t, got, "CQ.Wait after a message has arrived"), "CQ.Wait")
		p.A.CQ.WaitOK(i)
	}
}

var CIPump03 = pumps.Must("CI-Pump-03", "CI access layer", "accesslayer, CQ.NewPump",
	"A closed pump delivers nothing more, and undelivered completions stay in the CQ.")

var _ = pumps.Case(validate.Case{ID: "al.pump.close", Title: "close a pump under load", Run: pumpClose}, CIPump03)

func pumpClose(t *validate.T) {
	s := registered(t)
	p := s.pair(kit.Depth(64))
	p.B.Recv(p.B.RecvWRs(64, 1)...)
	handed := make(chan int, 256)
	release, destroyed := make(chan struct{}), make(chan error, 1)
	slow, err := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ").NewPump(accesslayer.PumpConfig{Batch: 1,
		Handle: func(wc []ci.WC) { handed <- len(wc); <-release }})
	kit.OK(t, err, "CQ.NewPump")
	p.A.Send(p.A.SendWRs(64)...)
	expect(t, handed, "first completion that the pump delivers")
	p.A.CQ.Wait(64)
	// The pump is closed while its first call of Handle runs. If this goroutine is late, Handle is called again, and
	// the case tests less.
	t.Go(func() { destroyed <- slow.Destroy() })
	select {
	case err := <-destroyed:
		destroyed <- err
	case <-time.After(5 * time.Millisecond):
	}
	close(release)
	kit.OK(t, expect(t, destroyed, "Pump.Destroy"), "Pump.Destroy under load")
	n := 1
	for len(handed) > 0 {
		n += <-handed
	}
	none(t, handed, "completions that a closed pump delivers")
	for i, wc := range p.B.RecvCQ.Wait(64 - n) {
		kit.Equal(t, "WC.ID of a completion that the pump left in the CQ", wc.ID, uint64(n+i+1))
	}
	p.B.RecvCQ.Empty()
}

var CIPump04 = pumps.Must("CI-Pump-04", "CI access layer", "accesslayer, Pump.CatchUp",
	"Pump.CatchUp calls its function once, on the goroutine of the pump, after the completions that were in the CQ "+
		"have been handled; of several calls, in order. A pump that ends first does not call it.")

var _ = pumps.Add("al.pump.catch-up", "let pumps catch up with completions, and with an empty CQ", pumpCatchUp,
	CIPump04)

func pumpCatchUp(t *validate.T) {
	const messages = 24
	s := registered(t)
	p := s.pair(kit.Depth(32))
	cq := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ")
	for _, v := range kit.Variants(t, "", []struct {
		name  string
		mode  accesslayer.PollMode
		batch int
	}{
		{"sleeping, one at a time", accesslayer.PollEvent, 1},
		{"sleeping, all at once", accesslayer.PollEvent, messages},
		{"polling", accesslayer.PollBusy, 5}, {"both", accesslayer.PollHybrid, 0},
	}) {
		entered, release := make(chan struct{}, 1), make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		defer free()                  // also if the case fails
		handled, isInside := 0, false // used by the pump only
		pump, err := cq.NewPump(accesslayer.PumpConfig{Mode: v.mode, Batch: v.batch, Handle: func(wcs []ci.WC) {
			isInside = true
			if handled == 0 {
				entered <- struct{}{}
				<-release
			}
			handled += len(wcs)
			isInside = false
		}})
		kit.OK(t, err, "CQ.NewPump")
		type call struct {
			number, handled int
			isInside        bool
		}
		calls := make(chan call, 8)
		catchUp := func(number int) { pump.CatchUp(func() { calls <- call{number, handled, isInside} }) }
		catchUp(1)
		kit.Equal(t, "call of CatchUp with an empty CQ", expect(t, calls, "call of CatchUp"), call{number: 1})
		p.B.Recv(p.B.RecvWRs(messages, 1)...)
		p.A.Send(p.A.SendWRs(messages)...)
		expect(t, entered, "first completion that the pump delivers")
		p.A.CQ.Wait(messages) // all have arrived
		for i := range 3 {
			catchUp(2 + i)
		}
		none(t, calls, "calls of CatchUp inside Handle")
		free()
		for i := range 3 {
			kit.Equal(t, "call of CatchUp after completions", expect(t, calls, "call of CatchUp"),
				call{2 + i, messages, false})
		}
		catchUp(5)
		kit.Equal(t, "call of CatchUp with a CQ that is empty again", expect(t, calls, "call of CatchUp"),
			call{5, messages, false})
		ended, held, resume := make(chan error, 1), make(chan struct{}, 1), make(chan struct{})
		goOn := sync.OnceFunc(func() { close(resume) })
		defer goOn() // also if the case fails
		pump.CatchUp(func() { held <- struct{}{}; <-resume })
		expect(t, held, "call of CatchUp that blocks")
		pump.CatchUp(func() {
			if err := pump.DestroyAsync(func(err error) { ended <- err }); err != nil {
				ended <- err
			}
		})
		catchUp(7) // behind the end of the pump
		goOn()
		kit.OK(t, expect(t, ended, "callback of Pump.DestroyAsync in a call of CatchUp"), "Pump.DestroyAsync")
		catchUp(6)
		none(t, calls, "calls of CatchUp for a pump that has ended")
		p.B.RecvCQ.Empty()
	}
}

var CIPump05 = pumps.Must("CI-Pump-05", "CI access layer", "accesslayer, CQ.Wait, Poller.Next",
	"A wait returns completions that are queued also if its context has ended, and otherwise the error of the "+
		"context. If the CQ is destroyed, waits return ErrClosed. Several waits get each completion once.")

var _ = pumps.Add("al.wait.end", "waits whose context or CQ ends, and several waits at a time", waitEnd, CIPump05)

func waitEnd(t *validate.T) {
	s := registered(t)
	ended, end := context.WithCancel(t.Context())
	end()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // also if the case fails
	type waiter func(ctx context.Context, wc []ci.WC) (int, error)
	for _, v := range kit.Variants(t, "", []struct {
		name string
		of   func(*accesslayer.CQ) waiter
	}{
		{"CQ.Wait", func(q *accesslayer.CQ) waiter { return q.Wait }},
		{"Poller.Next, polling", func(q *accesslayer.CQ) waiter {
			return accesslayer.Poller{CQ: q, Mode: accesslayer.PollBusy}.Next
		}},
		{"Poller.Next, sleeping", func(q *accesslayer.CQ) waiter {
			return accesslayer.Poller{CQ: q, Mode: accesslayer.PollEvent}.Next
		}},
		{"Poller.Next, both", func(q *accesslayer.CQ) waiter {
			return accesslayer.Poller{CQ: q, Mode: accesslayer.PollHybrid}.Next
		}},
	}) {
		const messages, waits = 12, 3
		p := s.pair(kit.Depth(32))
		cq := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ")
		wait, wc := v.of(cq), make([]ci.WC, messages)
		_, err := wait(ended, wc)
		kit.True(t, errors.Is(err, context.Canceled), v.name+" with an empty CQ and a context that has ended",
			"the error of the context", "%v", err)
		p.B.Recv(p.B.RecvWRs(messages, 1)...)
		p.A.Send(p.A.SendWRs(messages)...)
		p.A.CQ.Wait(messages) // all have arrived
		n, err := wait(ended, wc[:5])
		kit.OK(t, err, v.name+" with completions and a context that has ended")
		kit.Equal(t, "completions of "+v.name, n, 5)
		n, err = wait(t.Context(), wc[5:])
		kit.OK(t, err, v.name+" with completions")
		kit.Equal(t, "completions of another "+v.name, n, messages-5)
		for i := range wc {
			kit.Equal(t, "WC.ID of a completion of "+v.name, wc[i].ID, uint64(i+1))
		}
		type result struct {
			id  uint64
			err error
		}
		results := make(chan result, messages)
		for range waits {
			t.Go(func() {
				one := make([]ci.WC, 1)
				for {
					if _, err := wait(ctx, one); err != nil {
						results <- result{err: err}
						return
					}
					results <- result{id: one[0].ID}
				}
			})
		}
		seen := map[uint64]bool{}
		for i := range uint64(messages) {
			p.B.Recv(p.B.RecvWR(100+i, 0, 1))
			p.A.Send(p.A.SendWR(100+i, 0, 1))
			r := expect(t, results, "completion for one of several waits")
			kit.OK(t, r.err, v.name+" beside others")
			kit.True(t, r.id == 100+i && !seen[r.id], "WC.ID of a completion of "+v.name+" beside others",
				fmt.Sprint(100+i), "%d", r.id)
			seen[r.id] = true
			p.A.CQ.WaitOK(100 + i)
		}
		kit.OK(t, typed[*accesslayer.PD](t, p.B.PD, "PD").Destroy(), "PD.Destroy while its CQ has waits")
		for range waits {
			r := expect(t, results, "end of a wait whose CQ is destroyed")
			kit.True(t, errors.Is(r.err, accesslayer.ErrClosed) && ci.StatusOf(r.err) == ci.InvalidCQHandle,
				v.name+" when the CQ is destroyed", "invalid CQ handle with ErrClosed", "%v", r.err)
		}
		_, err = wait(t.Context(), wc)
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), v.name+" of a destroyed CQ", "ErrClosed", "%v", err)
	}
	for _, r := range s.rec {
		r.clean(t)
	}
}

// window stands above the driver. It calls a function once when a CQ is about to be armed.
type window struct{ before atomic.Pointer[func()] }

func (w *window) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ { return windowCQ{ciwrap.CQ{CQ: q}, w} },
	})
}

type windowCQ struct {
	ciwrap.CQ
	w *window
}

func (q windowCQ) Notify(when ci.Notify) error {
	if f := q.w.before.Swap(nil); f != nil {
		(*f)()
	}
	return q.CQ.Notify(when)
}

var CIPump06 = pumps.Must("CI-Pump-06", "CI access layer", "accesslayer, CQ.Wait, Poller.Next",
	"A completion that arrives between the last poll of a wait and the arming of the CQ ends the wait.")

var _ = pumps.Add("al.wait.window", "a completion arrives while a wait arms the CQ", waitWindow, CIPump06)

func waitWindow(t *validate.T) {
	w := &window{}
	s := newStageOver(t, accesslayer.Config{}, w.over)
	for _, h := range s.hcas {
		kit.OK(t, s.al.Register(h), "Registrar.Register")
	}
	p := s.pair()
	cq := typed[*accesslayer.CQ](t, p.B.RecvCQ.CQ, "CQ")
	ctx, cancel := context.WithTimeout(t.Context(), t.Remaining())
	defer cancel()
	id, wc := uint64(0), make([]ci.WC, 4)
	for range 3 {
		for _, v := range []struct {
			name string
			wait func(context.Context, []ci.WC) (int, error)
		}{
			{"CQ.Wait", cq.Wait},
			{"Poller.Next, sleeping", accesslayer.Poller{CQ: cq, Mode: accesslayer.PollEvent}.Next},
			{"Poller.Next, both", accesslayer.Poller{CQ: cq, Mode: accesslayer.PollHybrid}.Next},
		} {
			id++
			p.B.Recv(p.B.RecvWR(id, 0, 1))
			var sent error
			arrive := func() { // inside a verb, so that it must not end the case
				_, sent = p.A.PostSend([]ci.SendWR{p.A.SendWR(id, 0, 1)})
				for one := make([]ci.WC, 1); sent == nil && ctx.Err() == nil; runtime.Gosched() {
					if n, err := p.A.CQ.Poll(one); n > 0 || err != nil {
						sent = errors.Join(err, one[0].Err())
						return
					}
				}
			}
			w.before.Store(&arrive)
			n, err := v.wait(ctx, wc)
			where := v.name + " with a completion that arrives while it arms the CQ"
			kit.OK(t, sent, where+": the message")
			kit.OK(t, err, where)
			kit.True(t, n == 1 && wc[0].ID == id, where, "the completion", "%d: %s", n, kit.Completions(wc[:n]))
			kit.True(t, w.before.Load() == nil, where, "an armed CQ", "none")
		}
	}
}
