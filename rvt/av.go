package rvt

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// AV is an address vector.
type AV struct {
	refs  driver.Refs
	pd    *PD
	state atomic.Pointer[avState]
}

// avState is one generation of a vector. Modify replaces it as a whole, so that a send uses the old address or the new
// one.
type avState struct {
	attr  ci.AVAttr
	route Route // nil: an invalid address; sends complete with WCLocalOpErr
	port  *port
}

func (d *PD) avState(verb string, attr ci.AVAttr) (*avState, error) {
	dev := d.dev
	attr.User = nil // not kept
	s := &avState{attr: attr, port: dev.port(attr.Port)}
	if s.port == nil {
		if dev.attr.Caps.Has(ci.CapAVPortCheck) {
			return nil, dev.noPort(verb, attr.Port)
		}
		return s, nil
	}
	if r, err := s.port.Route(&attr, Flow{Datagram: true}); err == nil {
		s.route = r
	}
	return s, nil
}

// CreateAV creates an address vector.
func (d *PD) CreateAV(attr ci.AVAttr) (ci.AV, error) {
	const verb = "PD.CreateAV"
	dev := d.dev
	if !dev.attr.Caps.Has(ci.CapAV) {
		return d.UnimplementedPD.CreateAV(attr)
	}
	s, err := d.avState(verb, attr)
	if err != nil {
		return nil, err
	}
	if err := d.child(verb, kindAV, dev.attr.MaxAVs); err != nil {
		return nil, err
	}
	a := &AV{pd: d}
	a.state.Store(s)
	if d.user != nil {
		if err := d.user.AddAV(a, attr.User); err != nil {
			d.unchild(kindAV)
			return nil, failErr(verb, ci.InsufficientResources, err)
		}
		return a, nil
	}
	nothingForUser(attr.User)
	return a, nil
}

// Query returns the attributes and the domain.
func (a *AV) Query() (ci.AVAttr, ci.PD, error) {
	if !a.refs.Alive() {
		return ci.AVAttr{}, nil, fail("AV.Query", ci.InvalidAVHandle)
	}
	return a.state.Load().attr, a.pd, nil
}

// Modify replaces the attributes.
func (a *AV) Modify(attr ci.AVAttr) error {
	const verb = "AV.Modify"
	a.pd.process.settle()
	if !a.refs.Alive() {
		return fail(verb, ci.InvalidAVHandle)
	}
	s, err := a.pd.avState(verb, attr)
	if err != nil {
		return err
	}
	a.state.Store(s)
	nothingForUser(attr.User)
	return nil
}

// Destroy frees the vector. Sends that were posted with it and have not left complete with WCLocalOpErr.
func (a *AV) Destroy() error {
	a.pd.process.settle()
	if err := a.refs.BeginDestroy("AV.Destroy", ci.InvalidAVHandle); err != nil {
		return err
	}
	if a.pd.user != nil {
		a.pd.user.RemoveAV(a)
	}
	s := *a.state.Load()
	s.route = nil
	a.state.Store(&s)
	a.pd.unchild(kindAV)
	return nil
}
