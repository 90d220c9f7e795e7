package cisuite_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/validate"
	"ciddk/validate/suite/cisuite"
)

// rdFaults are the faults of a driver with reliable datagram domains.
type rdFaults struct{ freePD, freeRDD, sameNumber, anyQP, lateQP bool }

// rdState is what the objects of reliable datagrams of one adapter share.
type rdState struct {
	mu     sync.Mutex
	faults rdFaults
	num    ci.EECN
}

// withRD returns the reference HCA with domains, end-to-end contexts and RD QPs in front of it. The QPs are created and
// carry no data.
func withRD(f rdFaults) validate.Driver {
	return validate.Driver{Name: "rd", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		port := testenv.Must(sim.New(n, sim.Config{Addr: netip.AddrFrom4([4]byte{10, 0, 0, 1})}))
		h, err := reference.New(reference.Config{GUID: 0x100, Ports: []rvt.Port{port}})
		if err != nil {
			return nil, err
		}
		s := &rdState{faults: f}
		wrapped := ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return rdCA{ciwrap.CA{CA: c}} },
			PD: func(p ci.PD, _ ci.PDType) ci.PD { return &rdPD{PD: ciwrap.PD{PD: p}, s: s} }})
		return &validate.Target{HCAs: []ci.HCA{wrapped}, Close: func(context.Context) error { return h.Close() }}, nil
	}}
}

type rdCA struct{ ciwrap.CA }

func (c rdCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		a.Caps |= ci.CapRD
		a.MaxRDDs, a.MaxEECs = 8, 8
	}
	return a, err
}

type rdPD struct {
	ciwrap.PD
	s     *rdState
	count int // domains
}

func (p *rdPD) Destroy() error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.count > 0 && !p.s.faults.freePD {
		return &ci.Error{Verb: "PD.Destroy", Status: ci.ResourceBusy}
	}
	return p.PD.Destroy()
}

func (p *rdPD) AllocRDD() (ci.RDD, error) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.count++
	return &rdd{pd: p}, nil
}

func (p *rdPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if c.Type != ci.RD {
		return p.PD.CreateQP(c)
	}
	d, _ := c.RDD.(*rdd)
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	switch {
	case d == nil && !p.s.faults.anyQP, d != nil && d.isGone && !p.s.faults.lateQP:
		return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InvalidHandle}
	case d != nil:
		d.count++
	}
	c.Type, c.RDD = ci.UD, nil
	q, err := p.PD.CreateQP(c)
	if err != nil {
		return nil, err
	}
	return &rdQP{QP: ciwrap.QP{QP: q}, d: d}, nil
}

type rdQP struct {
	ciwrap.QP
	d *rdd
}

func (q *rdQP) Query() (ci.QPAttr, error) {
	a, err := q.QP.Query()
	a.Type = ci.RD
	return a, err
}

func (q *rdQP) Destroy() error {
	err := q.QP.Destroy()
	if err == nil && q.d != nil {
		q.d.pd.s.mu.Lock()
		q.d.count--
		q.d.pd.s.mu.Unlock()
	}
	return err
}

type rdd struct {
	pd     *rdPD
	count  int // QPs and end-to-end contexts
	isGone bool
}

func (d *rdd) Destroy() error {
	d.pd.s.mu.Lock()
	defer d.pd.s.mu.Unlock()
	switch {
	case d.isGone:
		return &ci.Error{Verb: "RDD.Destroy", Status: ci.InvalidHandle}
	case d.count > 0 && !d.pd.s.faults.freeRDD:
		return &ci.Error{Verb: "RDD.Destroy", Status: ci.ResourceBusy}
	}
	d.isGone = true
	d.pd.count--
	return nil
}

func (d *rdd) CreateEEC(ci.EECCreate) (ci.EEC, error) {
	d.pd.s.mu.Lock()
	defer d.pd.s.mu.Unlock()
	if d.isGone {
		return nil, &ci.Error{Verb: "RDD.CreateEEC", Status: ci.InvalidHandle}
	}
	d.count++
	if d.pd.s.num == 0 || !d.pd.s.faults.sameNumber {
		d.pd.s.num++
	}
	return &eec{d: d, num: d.pd.s.num}, nil
}

type eec struct {
	d      *rdd
	num    ci.EECN
	isGone bool
}

func (e *eec) Num() ci.EECN { return e.num }

func (e *eec) Query() (ci.QPAttr, error) { return ci.QPAttr{State: ci.QPReset}, nil }

func (e *eec) Modify(ci.QPField, ci.QPAttr) error {
	return &ci.Error{Verb: "EEC.Modify", Status: ci.InvalidQPState}
}

func (e *eec) Destroy() error {
	e.d.pd.s.mu.Lock()
	defer e.d.pd.s.mu.Unlock()
	if e.isGone {
		return &ci.Error{Verb: "EEC.Destroy", Status: ci.InvalidHandle}
	}
	e.isGone = true
	e.d.count--
	return nil
}

// TestReliableDatagrams checks that the cases of domains pass on a driver that has them, and fail on wrong ones.
func TestReliableDatagrams(t *testing.T) {
	for name, x := range map[string]struct {
		faults rdFaults
		failed []string
	}{
		"correct":                       {},
		"a PD is never busy":            {rdFaults{freePD: true}, []string{"rd.domain", "order.pd.rdd"}},
		"an RDD is never busy":          {rdFaults{freeRDD: true}, []string{"rd.domain", "rd.needs-domain"}},
		"EECs have one number":          {rdFaults{sameNumber: true}, []string{"rd.domain"}},
		"a QP needs no RDD":             {rdFaults{anyQP: true}, []string{"rd.needs-domain"}},
		"a QP can have a destroyed one": {rdFaults{lateQP: true}, []string{"rd.needs-domain"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := validate.Plan{Catalog: cisuite.Catalog(), Driver: withRD(x.faults),
				Select:  validate.Selection{Cases: []string{"rd.*", "order.pd.rdd"}},
				Setting: validate.Setting{Profile: "full", Options: validate.Options{Seed: 1}},
				Command: []string{"test"}}
			r, err := p.Run(t.Context())
			require.NoError(t, err)
			var failed []string
			for i := range r.Results {
				assert.NotEqual(t, validate.Skip, r.Results[i].Status, r.Results[i].Case)
				if r.Results[i].Status != validate.Pass {
					failed = append(failed, r.Results[i].Case)
				}
			}
			assert.Len(t, r.Results, 3)
			assert.ElementsMatch(t, x.failed, failed)
		})
	}
}
