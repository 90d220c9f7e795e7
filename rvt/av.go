package rvt

import (
	"sync/atomic"

	"ciddk/ci"
)

// AV is an address vector.
type AV struct {
	refs
	pd    *PD
	gone  atomic.Bool // as refs.dead, for posters
	state atomic.Pointer[avState]
}

// avState is one generation of a vector: Modify replaces it whole, so that a send sees the old or the new address.
type avState struct {
	attr  ci.AVAttr
	route Route // nil: a bad address, which shows as WCLocalOpErr at the send
	port  *port
}

func (d *PD) avState(verb string, attr ci.AVAttr) (*avState, error) {
	dev := d.dev
	attr.User = nil // not kept after the verb
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

// CreateAV makes an address vector.
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
	nothingForUser(attr.User)
	return a, nil
}

// Query returns what was set.
func (a *AV) Query() (ci.AVAttr, ci.PD, error) {
	if !a.alive() {
		return ci.AVAttr{}, nil, fail("AV.Query", ci.InvalidAVHandle)
	}
	return a.state.Load().attr, a.pd, nil
}

// Modify replaces the vector.
func (a *AV) Modify(attr ci.AVAttr) error {
	const verb = "AV.Modify"
	if !a.alive() {
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

// Destroy frees the vector. Sends posted with it and not sent yet complete with WCLocalOpErr.
func (a *AV) Destroy() error {
	if err := a.kill("AV.Destroy", ci.InvalidAVHandle); err != nil {
		return err
	}
	a.gone.Store(true)
	s := *a.state.Load()
	s.route = nil
	a.state.Store(&s)
	a.pd.unchild(kindAV)
	return nil
}
