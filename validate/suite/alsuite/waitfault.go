package alsuite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// playedCQ stands above a CQ of the driver. Its polls return what the case has set, and then nothing.
type playedCQ struct {
	ciwrap.CQ
	p *played
}

// poll is the result of one poll. do, if not nil, is called before it.
type poll struct {
	n   int
	err error
	do  func()
}

// played holds the script of the CQ that is created next.
type played struct {
	mu       sync.Mutex
	polls    []poll
	notify   error  // result of Notify
	steady   bool   // polls without a script return one completion
	room     int    // of the last poll
	calls    string // p for each poll, n for each Notify
	complete func() // makes a completion callback
}

func (p *played) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		CQCreate: func(c ci.CQCreate) ci.CQCreate {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.complete = func() { c.OnCompletion(c.Context) }
			return c
		},
		CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ { return playedCQ{ciwrap.CQ{CQ: q}, p} },
	})
}

// set replaces the script.
func (p *played) set(notify error, polls ...poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls, p.notify, p.calls = polls, notify, ""
}

func (p *played) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func (q playedCQ) Poll(wc []ci.WC) (int, error) {
	q.p.mu.Lock()
	var next poll
	if q.p.steady {
		next.n = 1
	}
	if len(q.p.polls) > 0 {
		next, q.p.polls = q.p.polls[0], q.p.polls[1:]
		q.p.calls += "p"
	}
	q.p.room = len(wc)
	q.p.mu.Unlock()
	if next.do != nil {
		next.do()
	}
	for i := range next.n {
		wc[i] = ci.WC{ID: uint64(i) + 1}
	}
	return next.n, next.err
}

func (q playedCQ) Notify(ci.Notify) error {
	q.p.mu.Lock()
	defer q.p.mu.Unlock()
	q.p.calls += "n"
	return q.p.notify
}

var CIPump07 = pumps.Must("CI-Pump-07", "CI access layer", "accesslayer, CQ.Wait, Poller.Next",
	"A wait returns the driver's error of each of its polls and of Notify, and the completions of each. A callback "+
		"without a completion arms the CQ again. After the destruction of the CQ has begun, ErrClosed replaces the "+
		"error of the driver.")

var _ = pumps.Case(validate.Case{
	ID:    "al.wait.fault",
	Title: "each poll of a wait and its Notify fail, or the poll returns completions",
	Run:   waitFault,
}, CIPump07)

func waitFault(t *validate.T) {
	d := &played{}
	s := newStageOver(t, accesslayer.Config{}, d.over)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pd := typed[*accesslayer.PD](t, ca.PD(), "PD")
	fails := errors.New("an error of the driver")
	wake := poll{do: func() { d.complete() }}
	type row struct {
		name   string
		polls  []poll
		notify error
		n      int
		err    error
		calls  string // for a wait that sleeps
	}
	rows := []row{
		{"the first poll fails", []poll{{err: fails}}, nil, 0, fails, "p"},
		{"the first poll has completions", []poll{{n: 2}}, nil, 2, nil, "p"},
		{"Notify fails", []poll{{}}, fails, 0, fails, "pn"},
		{"the poll after Notify fails", []poll{{}, {err: fails}}, nil, 0, fails, "pnp"},
		{"the poll after Notify has a completion", []poll{{}, {n: 1}}, nil, 1, nil, "pnp"},
		{"the poll after a callback fails", []poll{{}, wake, {err: fails}}, nil, 0, fails, "pnpp"},
		{"the poll after a callback has completions", []poll{{}, wake, {n: 3}}, nil, 3, nil, "pnpp"},
		{"a callback without completions", []poll{{}, wake, {}, wake, {n: 1}}, nil, 1, nil, "pnppnpp"},
		{"two callbacks without completions", []poll{{}, wake, {}, wake, {}, wake, {n: 1}}, nil, 1, nil,
			"pnppnppnpp"},
	}
	for _, v := range kit.Variants(t, "", rows) {
		cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
		kit.OK(t, err, "PD.NewCQ")
		wc := make([]ci.WC, 4)
		check := func(how string, wait func(context.Context, []ci.WC) (int, error), calls string) {
			d.set(v.notify, v.polls...)
			n, err := wait(t.Context(), wc)
			where := how + ", " + v.name
			kit.True(t, errors.Is(err, v.err), where, fmt.Sprint(v.err), "%v", err)
			kit.Equal(t, "completions of "+where, n, v.n)
			kit.Equal(t, "polls and calls of Notify by "+where, d.log(), calls)
		}
		check("CQ.Wait", cq.Wait, v.calls)
		check("Poller.Next, sleeping", accesslayer.Poller{CQ: cq, Mode: accesslayer.PollEvent}.Next, v.calls)
		if v.notify == nil { // a polling wait sees the same results without Notify
			polls := ""
			for range v.polls {
				polls += "p"
			}
			check("Poller.Next, polling", accesslayer.Poller{CQ: cq, Mode: accesslayer.PollBusy}.Next, polls)
		}
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}
	// The context, or the CQ, ends inside a poll.
	ends := poll{}
	for _, v := range kit.Variants(t, "", []row{
		{"the context ends, and the last poll fails", []poll{{}, ends, {err: fails}}, nil, 0, fails, "pnpp"},
		{"the context ends, and the last poll has completions", []poll{{}, ends, {n: 2}}, nil, 2, nil, "pnpp"},
		{"the context ends", []poll{{}, ends, {}}, nil, 0, context.Canceled, "pnpp"},
	}) {
		cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
		kit.OK(t, err, "PD.NewCQ")
		ctx, end := context.WithCancel(t.Context())
		defer end() // also if the case fails
		d.set(nil, v.polls[0], poll{do: end}, v.polls[2])
		n, err := cq.Wait(ctx, make([]ci.WC, 4))
		where := "CQ.Wait, " + v.name
		kit.True(t, errors.Is(err, v.err), where, fmt.Sprint(v.err), "%v", err)
		kit.Equal(t, "completions of "+where, n, v.n)
		kit.Equal(t, "polls and calls of Notify by "+where, d.log(), v.calls)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}
	for i := range 4 {
		for _, mode := range []accesslayer.PollMode{accesslayer.PollEvent, accesslayer.PollBusy,
			accesslayer.PollHybrid} {
			cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
			kit.OK(t, err, "PD.NewCQ")
			ended := make(chan error, 2)
			destroys := poll{err: fails, do: func() {
				if err := cq.DestroyAsync(func(err error) { ended <- err }); err != nil {
					ended <- err
				}
			}}
			polls := append(make([]poll, i), destroys)
			if i == 2 { // the third poll of a wait that sleeps follows a callback
				polls[1] = wake
			}
			if i == 3 { // without an error
				destroys.err = nil
				polls = []poll{{}, destroys}
			}
			d.set(nil, polls...)
			n, err := accesslayer.Poller{CQ: cq, Mode: mode, Spin: 1}.Next(t.Context(), make([]ci.WC, 4))
			where := fmt.Sprintf("Poller.Next in mode %d, of a CQ that is destroyed in poll %d", mode, len(polls))
			kit.WantExactly(t, err, where, ci.InvalidCQHandle)
			kit.True(t, errors.Is(err, accesslayer.ErrClosed) && !errors.Is(err, fails), where, "ErrClosed", "%v", err)
			kit.Equal(t, "completions of "+where, n, 0)
			kit.OK(t, expect(t, ended, "callback of CQ.DestroyAsync"), "CQ.DestroyAsync")
		}
	}
	s.rec[0].clean(t)
}

var _ = pumps.Case(validate.Case{
	ID:    "al.wait.spin",
	Title: "how long a wait polls before it sleeps",
	Run:   waitSpin,
}, CIPump07)

func waitSpin(t *validate.T) {
	d := &played{}
	time0 := clock.NewVirtual(time.Hour)
	s := newStageOver(t, accesslayer.Config{Clock: time0}, d.over)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	pd := typed[*accesslayer.PD](t, s.open(s.client, 0).PD(), "PD")
	for _, v := range kit.Variants(t, "", []struct{ spin, want time.Duration }{{0, 20 * time.Microsecond},
		{-time.Second, 20 * time.Microsecond}, {1, 1}, {time.Millisecond, time.Millisecond}}) {
		cq := s.newPlayedCQ(pd)
		// polled waits until the wait has polled many times, and between them looked at the clock.
		polled := func() {
			const polls = 1000
			d.set(nil, make([]poll, polls)...)
			until(t, fmt.Sprintf("%d polls of a wait, or its sleep", polls), func() bool {
				log := d.log()
				return len(log) >= polls || strings.Contains(log, "n")
			})
		}
		ended := make(chan error, 1)
		d.set(nil)
		go func() {
			n, err := accesslayer.Poller{CQ: cq, Mode: accesslayer.PollHybrid, Spin: v.spin}.Next(t.Context(),
				make([]ci.WC, 4))
			if err == nil && n != 1 {
				err = fmt.Errorf("%d completions", n)
			}
			ended <- err
		}()
		polled()
		where := fmt.Sprintf("calls of Notify by Poller.Next with a Spin of %v", v.spin)
		kit.Equal(t, where+", at once", strings.Count(d.log(), "n"), 0)
		time0.Advance(v.want - 1)
		polled()
		kit.Equal(t, where+", before the time", strings.Count(d.log(), "n"), 0)
		time0.Advance(1)
		until(t, where, func() bool { return strings.Contains(d.log(), "n") })
		d.set(nil, poll{n: 1}, poll{n: 1})
		d.complete()
		kit.OK(t, expect(t, ended, "end of Poller.Next"), "Poller.Next")
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}
}

var CIPump08 = pumps.Must("CI-Pump-08", "CI access layer", "accesslayer, PumpConfig, Pump.CatchUp",
	"A pump whose poll fails stops, and calls OnStop once with the driver's error, unless it is being destroyed. A "+
		"pump polls for Batch completions, 64 by default. CatchUp does not take one empty poll for an empty CQ, "+
		"and calls its function after 4096 completions if the CQ does not become empty.")

var (
	_ = pumps.Case(validate.Case{
		ID:    "al.pump.fault",
		Title: "a poll of a pump fails, also while it catches up or is destroyed",
		Run:   pumpFault,
	}, CIPump08)
	_ = pumps.Case(validate.Case{
		ID:    "al.pump.steady",
		Title: "batches of pumps, and completions that do not end while a pump catches up",
		Run:   pumpSteady,
	}, CIPump08)
)

// pumpModes are the modes of a pump.
var pumpModes = []accesslayer.PollMode{accesslayer.PollEvent, accesslayer.PollBusy, accesslayer.PollHybrid}

// newPlayedCQ returns a CQ whose polls the case scripts.
func (s *stage) newPlayedCQ(pd *accesslayer.PD) *accesslayer.CQ {
	cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
	kit.OK(s.t, err, "PD.NewCQ")
	return cq
}

func pumpFault(t *validate.T) {
	d := &played{}
	s := newStageOver(t, accesslayer.Config{}, d.over)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	pd := typed[*accesslayer.PD](t, s.open(s.client, 0).PD(), "PD")
	_, err := s.newPlayedCQ(pd).NewPump(accesslayer.PumpConfig{})
	kit.WantExactly(t, err, "CQ.NewPump without Handle", ci.InvalidParameter)
	fails := errors.New("an error of the driver")
	for _, mode := range kit.Variants(t, "mode", pumpModes) {
		for _, v := range kit.Variants(t, "", []struct {
			name      string
			polls     []poll
			completed int
		}{
			{"the first poll fails", []poll{{err: fails}}, 0},
			{"the second poll fails", []poll{{}, {err: fails}}, 0},
			{"a poll after completions fails", []poll{{n: 2}, {err: fails}}, 2},
		}) {
			cq := s.newPlayedCQ(pd)
			d.set(nil, v.polls...)
			stopped, handled := make(chan error, 4), make(chan int, 8)
			p, err := cq.NewPump(accesslayer.PumpConfig{Mode: mode, OnStop: func(err error) { stopped <- err },
				Handle: func(wc []ci.WC) { handled <- len(wc) }})
			kit.OK(t, err, "CQ.NewPump")
			where := fmt.Sprintf("PumpConfig.OnStop in mode %d, %s", mode, v.name)
			err = expect(t, stopped, where)
			kit.True(t, errors.Is(err, fails), where, "the error of the driver", "%v", err)
			n := 0
			for len(handled) > 0 {
				n += <-handled
			}
			kit.Equal(t, "completions before "+where, n, v.completed)
			late := make(chan struct{}, 1)
			p.CatchUp(func() { late <- struct{}{} })
			kit.OK(t, p.Destroy(), "Pump.Destroy of a pump that has stopped")
			kit.Equal(t, "calls of CatchUp for a pump that has stopped", len(late), 0)
			kit.Equal(t, "further calls of "+where, len(stopped), 0)
			kit.OK(t, cq.Destroy(), "CQ.Destroy")

			cq = s.newPlayedCQ(pd) // without OnStop, the CQ is destroyed all the same
			d.set(nil, v.polls...)
			_, err = cq.NewPump(accesslayer.PumpConfig{Mode: mode, Handle: func([]ci.WC) {}})
			kit.OK(t, err, "CQ.NewPump without OnStop")
			kit.OK(t, cq.Destroy(), "CQ.Destroy with a pump that has stopped")
		}
		// The pump is destroyed in the poll that fails.
		cq := s.newPlayedCQ(pd)
		created, ended := make(chan *accesslayer.Pump, 1), make(chan error, 2)
		d.set(nil, poll{err: fails, do: func() {
			if err := (<-created).DestroyAsync(func(err error) { ended <- err }); err != nil {
				ended <- err
			}
		}})
		stopped := make(chan error, 2)
		p, err := cq.NewPump(accesslayer.PumpConfig{Mode: mode, OnStop: func(err error) { stopped <- err },
			Handle: func([]ci.WC) {}})
		kit.OK(t, err, "CQ.NewPump")
		created <- p
		kit.OK(t, expect(t, ended, "callback of Pump.DestroyAsync in a poll"), "Pump.DestroyAsync")
		kit.Equal(t, "calls of PumpConfig.OnStop for a pump that was destroyed", len(stopped), 0)
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}
	// A poll fails while the pump catches up.
	cq := s.newPlayedCQ(pd)
	d.set(nil)
	stopped, calls := make(chan error, 2), make(chan struct{}, 2)
	p, err := cq.NewPump(accesslayer.PumpConfig{OnStop: func(err error) { stopped <- err }, Handle: func([]ci.WC) {}})
	kit.OK(t, err, "CQ.NewPump")
	p.CatchUp(func() { // on the pump's goroutine, which catches up once more after it
		d.set(nil, poll{}, poll{err: fails})
		p.CatchUp(func() { calls <- struct{}{} })
	})
	err = expect(t, stopped, "PumpConfig.OnStop while the pump catches up")
	kit.True(t, errors.Is(err, fails), "PumpConfig.OnStop while the pump catches up",
		"the error of the driver", "%v", err)
	kit.OK(t, p.Destroy(), "Pump.Destroy")
	kit.Equal(t, "calls of CatchUp after a poll that failed", len(calls), 0)
	s.rec[0].clean(t)
}

func pumpSteady(t *validate.T) {
	d := &played{}
	s := newStageOver(t, accesslayer.Config{}, d.over)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	pd := typed[*accesslayer.PD](t, s.open(s.client, 0).PD(), "PD")
	for _, v := range kit.Variants(t, "batch", []struct{ batch, room int }{{0, 64}, {-1, 64}, {1, 1}, {65, 65}}) {
		cq := s.newPlayedCQ(pd)
		handled, done := 0, make(chan string, 4)
		var p *accesslayer.Pump
		p, err := cq.NewPump(accesslayer.PumpConfig{Batch: v.batch, Handle: func(wc []ci.WC) { handled += len(wc) }})
		kit.OK(t, err, "CQ.NewPump")
		p.CatchUp(func() {
			before := handled
			d.set(nil, poll{}, poll{n: 1}, poll{}, poll{}) // one empty poll is not the end
			p.CatchUp(func() { done <- fmt.Sprint(handled-before, d.log()) })
		})
		kit.Equal(t, "completions before a call of CatchUp, and polls", expect(t, done, "call of CatchUp"), "1pppp")
		d.mu.Lock()
		kit.Equal(t, "completions that a pump polls for", d.room, v.room)
		d.steady = true
		d.mu.Unlock()
		p.CatchUp(func() {
			before := handled
			p.CatchUp(func() {
				d.mu.Lock()
				d.steady = false
				d.mu.Unlock()
				done <- fmt.Sprint(handled - before)
			})
		})
		kit.Equal(t, "completions before a call of CatchUp, of a CQ that does not become empty",
			expect(t, done, "call of CatchUp"), "4096")
		kit.OK(t, p.Destroy(), "Pump.Destroy")
		kit.OK(t, cq.Destroy(), "CQ.Destroy")
	}
	s.rec[0].clean(t)
}
