package mads_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
)

// modelOp is one step of a random run.
type modelOp struct {
	kind    int // index of modelOps
	agent   int
	timeout time.Duration
	retries int
	cancel  time.Duration // 0: never
	pick    int           // selects the request that is answered
	fault   int           // how the response is wrong; 0: it is right
	wait    time.Duration
}

var modelOps = []string{"do", "do", "do", "answer", "answer", "answer", "wait", "wait", "close", "error"}

func drawModelOp(t *rapid.T) modelOp {
	ms := func(name string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, name)) * time.Millisecond
	}
	o := modelOp{kind: rapid.IntRange(0, len(modelOps)-1).Draw(t, "op"), agent: rapid.IntRange(0, 1).Draw(t, "agent")}
	switch modelOps[o.kind] {
	case "do":
		o.timeout, o.retries = ms("timeout", 1, 40), rapid.IntRange(0, 3).Draw(t, "retries")
		if rapid.Bool().Draw(t, "cancel") {
			o.cancel = ms("after", 1, 80)
		}
	case "answer":
		o.pick = rapid.IntRange(0, 100).Draw(t, "pick")
		o.fault = max(rapid.IntRange(-4, 3).Draw(t, "fault"), 0)
	case "wait":
		o.wait = ms("wait", 1, 60)
	}
	return o
}

// modelDo is a request, its result, and the expected result.
type modelDo struct {
	op      modelOp
	mark    byte
	begun   time.Time
	tid     uint64 // on the wire; 0 until the request has arrived
	ends    int
	end     time.Time
	r       *mads.Received
	err     error
	answer  time.Time // when the first right response was sent; zero: none
	closed  time.Time // when its agent was closed; zero: it was not
	inexact bool      // the QP failed while the request waited, so times are not exact
}

// TestModel checks that each request ends once under any sequence of events, with what happened first: its response,
// its timeout, the end of its context, or Close of its agent.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(drawModelOp), 1, 60).Draw(rt, "ops")
		var err error
		synctest.Test(t, func(t *testing.T) { err = runModel(t, ops) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func runModel(t *testing.T, ops []modelOp) error {
	l := direct.NewLink()
	g := &gate{}
	a := newNode(t, nodeConfig{wrap: g.layer()}, testenv.Must(direct.New(l, direct.Config{})))
	b := newNode(t, nodeConfig{}, testenv.Must(direct.New(l, direct.Config{})))
	var mu sync.Mutex
	var requests []*mads.Received // all that b has received
	var dos []*modelDo
	server := b.agent(mads.AgentConfig{})
	b.agent(mads.AgentConfig{Class: vendor, Version: 1, Methods: []mad.Method{mad.Get},
		OnReceive: func(r *mads.Received) {
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, r)
			dos[r.MAD[100]].tid = r.Header().TID
		}})
	clients := [2]mads.Agent{a.agent(mads.AgentConfig{Name: "one"}), a.agent(mads.AgentConfig{Name: "two"})}
	for _, o := range ops {
		switch modelOps[o.kind] {
		case "do":
			d := &modelDo{op: o, mark: byte(len(dos)), begun: time.Now()}
			mu.Lock()
			dos = append(dos, d)
			mu.Unlock()
			client := clients[o.agent]
			ctx, cancel := context.WithCancel(t.Context())
			if o.cancel > 0 {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), o.cancel)
			}
			go func() {
				defer cancel()
				m := request(vendor, 1, mad.Get, uint64(d.mark)+1000)
				m[100] = d.mark
				r, err := client.Do(ctx, &mads.Message{To: b.address(), MAD: m, Timeout: o.timeout, Retries: o.retries})
				mu.Lock()
				defer mu.Unlock()
				d.ends++
				d.end, d.r, d.err = time.Now(), r, err
			}()
		case "answer":
			mu.Lock()
			if len(requests) == 0 {
				mu.Unlock()
				continue
			}
			r := requests[o.pick%len(requests)]
			d := dos[r.MAD[100]]
			m := append([]byte(nil), r.MAD...)
			h := r.Header()
			h.Method = mad.GetResp
			switch o.fault {
			case 1:
				h.Class++
			case 2:
				h.TID++ // may be another request's, so the upper half is made invalid
				h.TID += 1 << 20
			case 3:
				h.TID += 1 << 40
			default:
				if d.answer.IsZero() {
					d.answer = time.Now()
				}
			}
			h.Put(m)
			mu.Unlock()
			if err := server.Send(&mads.Message{To: r.From, MAD: m}); err != nil {
				return err
			}
		case "wait":
			time.Sleep(o.wait)
		case "close":
			mu.Lock()
			for _, d := range dos {
				if d.op.agent == o.agent && d.ends == 0 && d.closed.IsZero() {
					d.closed = time.Now()
				}
			}
			mu.Unlock()
			if err := clients[o.agent].Close(); err != nil {
				return err
			}
			clients[o.agent] = a.agent(mads.AgentConfig{})
		case "error":
			mu.Lock()
			for _, d := range dos {
				d.inexact = d.inexact || d.ends == 0
			}
			mu.Unlock()
			if err := g.qp.QP.Modify(ci.ToError()); err != nil {
				return err
			}
		}
		synctest.Wait()
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	for _, d := range dos {
		if err := d.check(); err != nil {
			return fmt.Errorf("request %d (%+v): %w; begun %v, answered %v, closed %v, ended %v", d.mark, d.op, err,
				d.begun, d.answer, d.closed, d.end)
		}
	}
	for _, n := range []*node{a, b} {
		if held := n.m.Held(n.port()); len(held) > 0 {
			return fmt.Errorf("left over: %v", held)
		}
	}
	return nil
}

func (d *modelDo) check() error {
	if d.ends != 1 {
		return fmt.Errorf("it ended %d times", d.ends)
	}
	after := d.end.Sub(d.begun)
	limit := d.op.timeout * time.Duration(1+d.op.retries)
	// first checks that nothing else happened before the end. Of two things at the same time, either may be the result.
	first := func() error {
		switch {
		case d.inexact:
		case !d.answer.IsZero() && d.answer.Before(d.end):
			return errors.New("a response arrived before")
		case after > limit:
			return errors.New("its time was over before")
		}
		switch {
		case d.op.cancel > 0 && after > d.op.cancel:
			return errors.New("its context ended before")
		case !d.closed.IsZero() && d.closed.Before(d.end):
			return errors.New("its agent was closed before")
		}
		return nil
	}
	switch {
	case d.err == nil:
		if d.r.MAD[100] != d.mark || d.r.Header().TID != uint64(d.mark)+1000 || d.r.Header().Class != vendor {
			return fmt.Errorf("an answer that is not its own: %v, mark %d", d.r.Header(), d.r.MAD[100])
		}
		if d.answer.IsZero() || !d.inexact && !d.end.Equal(d.answer) {
			return errors.New("a response that was not sent then")
		}
	case errors.Is(d.err, ci.Timeout):
		if !d.inexact && after != limit || after < limit {
			return fmt.Errorf("timed out after %v, want %v", after, limit)
		}
	case errors.Is(d.err, context.DeadlineExceeded):
		if after != d.op.cancel {
			return fmt.Errorf("cancelled after %v", after)
		}
	case errors.Is(d.err, accesslayer.ErrClosed):
		if !d.closed.Equal(d.end) {
			return errors.New("closed at another time")
		}
	default:
		return d.err
	}
	return first()
}
