package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ciddk/ci"
	"ciddk/internal/model"
)

// Together calls control verbs on shared objects, each from a goroutine of its own and Rounds times. They succeed in
// every order, and leave nothing behind.
type Together struct {
	Rounds int
	Verbs  []Verb
}

// A Verb is one of those of Together.
type Verb struct {
	Resize     bool // CQ Send, to the size that it has; otherwise a QP with the CQs is created and destroyed
	Send, Recv int
}

func (v Verb) String() string {
	if v.Resize {
		return fmt.Sprintf("resize CQ %d to its size and query it", v.Send)
	}
	return fmt.Sprintf("create and destroy a QP with CQs %d and %d", v.Send, v.Recv)
}

func (s Together) String() string {
	var list []string
	for _, v := range s.Verbs {
		list = append(list, v.String())
	}
	return fmt.Sprintf("at the same time, each %d times: %s", s.Rounds, strings.Join(list, "; "))
}

func (s Together) run(r *Run) *model.Violation {
	var calls []func() error
	var resized []*cqObj
	for _, v := range s.Verbs {
		a, ok := get[*cqObj](r, v.Send)
		b, ok2 := get[*cqObj](r, v.Recv)
		if !ok || !ok2 || a.m.Dead || b.m.Dead || a.m.Vague() || b.m.Vague() || a.s != b.s {
			return nil
		}
		pd, _ := get[*pdObj](r, basePD(a.s.index))
		size := a.m.Size
		if v.Resize && !a.s.attr.Caps.Has(ci.CapResizeCQ) {
			return nil
		}
		if v.Resize {
			resized = append(resized, a)
		}
		calls = append(calls, func() error {
			if v.Resize {
				if _, err := a.d.Resize(ci.CQResize{Size: size}); err != nil {
					return err
				}
				_, err := a.d.Query()
				return err
			}
			q, err := pd.d.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: a.d, RecvCQ: b.d,
				QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}})
			if err == nil {
				err = q.Destroy()
			}
			return err
		})
	}
	r.isParallel.Store(true)
	defer r.isParallel.Store(false)
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			for k := 0; k < s.Rounds && errs[i] == nil; k++ {
				errs[i] = call()
				r.step.Add(1)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return &model.Violation{Rule: "CI-Parallel-01", Where: s.Verbs[i].String(),
				Expected: "success, as in any order of the calls", Got: err.Error()}
		}
	}
	for _, o := range resized { // a request for the size that it has may be rounded up
		a, err := o.d.Query()
		if v := o.m.Resize(o.m.Size, a.Size, err); v != nil {
			return v
		}
	}
	return nil
}

// together draws verbs on two CQs of a side, in both orders.
func (g *gen) together() Step {
	side := g.IntN(2)
	attr := g.r.sides[side].attr
	a, b := g.cq(side), g.cq(side)
	if len(g.qps(nil))+4 > attr.MaxQPs || attr.MaxSGEs < 1 || attr.MaxWRs < 1 {
		return nil
	}
	s := Together{Rounds: 20, Verbs: []Verb{{Send: a, Recv: b}, {Send: b, Recv: a}}}
	if attr.Caps.Has(ci.CapResizeCQ) {
		s.Verbs = append(s.Verbs, Verb{Resize: true, Send: a, Recv: a})
	}
	return s
}

// distill shortens a trace that ends with verbs that do not return: to the CQs that they share, on a new target, since
// the old one is stuck.
func (c *Config) distill(ctx context.Context, f *Finding) {
	last, ok := f.Trace[len(f.Trace)-1].(Together)
	if !ok {
		return
	}
	short := prelude()
	for _, s := range f.Trace {
		if q, ok := s.(NewCQ); ok && q.As >= firstName && slices.ContainsFunc(last.Verbs, func(v Verb) bool {
			return v.Send == q.As || v.Recv == q.As
		}) {
			short = append(short, s)
		}
	}
	short = append(short, last)
	t, err := c.Open(ctx)
	if err != nil {
		return
	}
	if _, hang, err := c.replay(ctx, t, short, c.Limit, dropTime); err == nil && hang != "" {
		f.Trace, f.Hang = short, hang
	}
}
