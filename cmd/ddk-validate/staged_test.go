package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
)

// A stage is a group of verbs that a driver executes itself, until it is moved to the engine of package rvt. keep adds
// the driver's own verbs to the configuration of an adapter. They count their calls.
type stage struct {
	name string
	keep func(c *reference.Config, calls *atomic.Int64)
}

// stages are the groups of verbs in the order of the move.
var stages = []stage{
	{"numbers", func(c *reference.Config, calls *atomic.Int64) {
		c.QPN = func(ci.QPCreate) (ci.QPN, error) { // each is drawn once, in an order of its own
			return ci.QPN(uint32(calls.Add(1))*0x9e3779%(1<<23) + 0x1000), nil
		}
	}},
	{"vectors", func(c *reference.Config, calls *atomic.Int64) {
		c.Override.AV = func(o ci.AV, a ci.AVAttr) ci.AV {
			own := &ownAV{AV: ciwrap.AV{AV: o}, calls: calls}
			own.attr.Store(&a)
			return own
		}
	}},
	{"polls", func(c *reference.Config, calls *atomic.Int64) {
		c.Override.CQ = func(o ci.CQ, _ ci.CQCreate) ci.CQ { return ownCQ{ciwrap.CQ{CQ: o}, calls} }
	}},
	{"posts", func(c *reference.Config, calls *atomic.Int64) {
		c.Override.QP = func(o ci.QP, _ ci.QPCreate) ci.QP { return ownQP{ciwrap.QP{QP: o}, calls} }
	}},
}

// ownAV answers Query from the driver's own record.
type ownAV struct {
	ciwrap.AV
	attr    atomic.Pointer[ci.AVAttr]
	calls   *atomic.Int64
	forgets bool // a mistake: Modify does not reach the record
}

func (v *ownAV) Query() (ci.AVAttr, ci.PD, error) {
	v.calls.Add(1)
	_, pd, err := v.AV.Query()
	if err != nil {
		return ci.AVAttr{}, nil, err
	}
	return *v.attr.Load(), pd, nil
}

func (v *ownAV) Modify(a ci.AVAttr) error {
	err := v.AV.Modify(a)
	if err == nil && !v.forgets {
		v.attr.Store(&a)
	}
	return err
}

// ownCQ takes one completion at a time.
type ownCQ struct {
	ciwrap.CQ
	calls *atomic.Int64
}

func (q ownCQ) Poll(wc []ci.WC) (n int, err error) {
	q.calls.Add(1)
	for n < len(wc) {
		got, err := q.CQ.Poll(wc[n : n+1])
		if got == 0 {
			return n, err
		}
		n++
	}
	return n, nil
}

// ownQP posts one request at a time.
type ownQP struct {
	ciwrap.QP
	calls *atomic.Int64
}

func (q ownQP) PostSend(wrs []ci.SendWR) (int, error) { return singly(q.calls, wrs, q.QP.PostSend) }
func (q ownQP) PostRecv(wrs []ci.RecvWR) (int, error) { return singly(q.calls, wrs, q.QP.PostRecv) }

func singly[W any](calls *atomic.Int64, wrs []W, post func([]W) (int, error)) (int, error) {
	calls.Add(1)
	if len(wrs) == 0 {
		return post(wrs)
	}
	for i := range wrs {
		if _, err := post(wrs[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// stagedDriver returns a driver that executes the verbs of some stages itself, and the number of their calls.
func stagedDriver(own []stage) (validate.Driver, []atomic.Int64) {
	calls := make([]atomic.Int64, len(own))
	return validate.Driver{Name: "staged", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		link := new(direct.Link)
		var made []*reference.HCA
		t := &validate.Target{Close: func(context.Context) error {
			var errs []error
			for _, h := range made {
				errs = append(errs, h.Close(), h.Unplug())
			}
			return errors.Join(errs...)
		}}
		for i := range 2 {
			port, err := direct.New(link, direct.Config{})
			if err != nil {
				return nil, errors.Join(err, t.Close(nil))
			}
			c := reference.Config{GUID: guid + ci.GUID(i)<<8, Ports: []rvt.Port{port}}
			for k, s := range own {
				s.keep(&c, &calls[k])
			}
			h, err := reference.New(c)
			if err != nil {
				return nil, errors.Join(err, t.Close(nil))
			}
			made, t.HCAs = append(made, h), append(t.HCAs, h)
		}
		return t, nil
	}}, calls
}

// stagedCases are cases of the verbs of the stages, and of traffic through all of them.
var stagedCases = []string{"av.*", "ud.av.*", "cq.create.*", "cq.poll.*", "cq.notify.*", "post.*", "qp.create.*",
	"rc.send.*", "ud.*", "order.*", "stale.*"}

func runStaged(t *testing.T, d validate.Driver, cases ...string) *validate.Report {
	p := validate.Plan{Catalog: cisuite.Catalog(), Driver: d, Select: validate.Selection{Cases: cases},
		Setting: validate.Setting{Profile: "full", Options: validate.Options{Seed: 1, Run: os.Getpid()}}}
	r, err := p.Run(t.Context())
	require.NoError(t, err)
	return r
}

// TestStagedMove moves a driver to the engine of package rvt, one group of verbs after the other, as drivers of Linux
// were moved to rdmavt. Each stage passes the same cases, and the verbs that were not moved are the driver's own.
func TestStagedMove(t *testing.T) {
	testenv.Long(t)
	for moved := range len(stages) + 1 {
		t.Run(fmt.Sprint(moved, " groups moved"), func(t *testing.T) {
			d, calls := stagedDriver(stages[moved:])
			r := runStaged(t, d, stagedCases...)
			assert.Equal(t, validate.OutcomePassed, r.Verdict.Outcome, "%s %v", r.Verdict.Line, r.Failed())
			for i := range calls {
				assert.Positive(t, calls[i].Load(), "%s: the driver's own verbs have not run", stages[moved+i].name)
			}
		})
	}
}

// TestStagedMistake leaves behind a record of the driver that a moved verb no longer keeps. The certifier finds it.
func TestStagedMistake(t *testing.T) {
	testenv.Long(t)
	d, _ := stagedDriver([]stage{{"half of the vectors", func(c *reference.Config, calls *atomic.Int64) {
		c.Override.AV = func(o ci.AV, a ci.AVAttr) ci.AV {
			own := &ownAV{AV: ciwrap.AV{AV: o}, calls: calls, forgets: true}
			own.attr.Store(&a)
			return own
		}
	}}})
	assert.Equal(t, validate.OutcomeFailed, runStaged(t, d, "av.*").Verdict.Outcome)
}
