package validate_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/fakehca"
)

// firmware is state of an adapter that outlives targets.
type firmware struct {
	down atomic.Bool
	cap  atomic.Uint32
}

type firmwareCA struct {
	ciwrap.CA
	f *firmware
}

func (c firmwareCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		if a.Ports[0].Capability = ci.PortCap(c.f.cap.Load()); c.f.down.Load() {
			a.Ports[0].State = ci.PortDown
		}
	}
	return a, err
}

func (c firmwareCA) Modify(_ uint8, set ci.PortField, m ci.PortModify) error {
	if set&ci.PortFieldCapability != 0 {
		c.f.cap.Store(c.f.cap.Load()&^uint32(m.CapMask) | uint32(m.Capability&m.CapMask))
	}
	if set&ci.PortFieldShutdown != 0 {
		c.f.down.Store(true)
	}
	return nil
}

// TestPreserve runs a case that leaves a port down and capability bits changed, on adapters whose ports come up by one
// way or another. The certifier uses it, or stops with an explanation.
func TestPreserve(t *testing.T) {
	for _, x := range []struct {
		name            string
		byOpen, byCable bool
		outcome         validate.Outcome
	}{
		{"Open brings the port up", true, false, validate.OutcomePassed},
		{"a cable brings the port up", false, true, validate.OutcomePassed},
		{"nothing brings the port up", false, false, validate.OutcomeUnjudged},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := &firmware{}
			f.cap.Store(2)
			d := validate.Driver{Name: "fake", Open: func(context.Context, validate.Options) (*validate.Target, error) {
				if x.byOpen {
					f.down.Store(false)
				}
				h := ciwrap.Wrap(fakehca.New(1, ci.LinkEthernet, fakehca.Faults{}), ciwrap.Layer{
					CA: func(c ci.CA) ci.CA { return firmwareCA{ciwrap.CA{CA: c}, f} }})
				out := &validate.Target{HCAs: []ci.HCA{h}}
				if x.byCable {
					out.SetLink = func(up bool) error { f.down.Store(!up); return nil }
				}
				return out, nil
			}}
			one := func(id string, spoils bool) validate.Case {
				return validate.Case{ID: id, Title: id, Requirements: []string{"SAS-0-01"}, Spoils: spoils,
					Feature: validate.FeatureCore, Run: func(t *validate.T) {
						ca, err := t.HCA().OpenCA(1, func(ci.Event) {}, nil)
						if err != nil {
							t.Failf("OpenCA", "success", "%v", err)
						}
						defer func() { _ = ca.Destroy() }()
						if a, _ := ca.Query(); a.Ports[0].State != ci.PortActive || a.Ports[0].Capability != 2 {
							t.Failf("port", "as at first", "%+v", a.Ports[0])
						}
						if spoils {
							_ = ca.Modify(1, ci.PortFieldShutdown|ci.PortFieldCapability,
								ci.PortModify{CapMask: 0xff, Capability: 0x14})
						}
					}}
			}
			p := &validate.Plan{Driver: d, Setting: validate.Setting{Profile: "full", Scale: 0.05},
				Catalog: validate.MustCatalog(validate.Suite{Cases: []validate.Case{one("a.down", true), one("a.next",
					false),
					one("a.third", false), one("a.fourth", false)}})}
			r := run(t, p)
			assert.Equal(t, x.outcome, r.Verdict.Outcome, "%+v", r.Results)
			if x.outcome != validate.OutcomePassed {
				assert.Contains(t, r.Run.Unopened, "port 1 of HCA 1 is Down since the case a.down")
				assert.Equal(t, validate.Pass, find(r, "a.down").Status)
			}
		})
	}
}
