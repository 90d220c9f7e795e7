package rchca

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/templates/rchca/userabi" // user.go
)

// DeviceUD is the part of Device for unreliable datagrams, of QPs whose QPConfig.Type is ci.UD. After an error of a
// send, such a QP enters QPSQError. Datagrams begin at byte 40 of the receive, after the GRH.
type DeviceUD interface {
	// WriteDatagram is WriteSend for a QP of type UD. The hardware copies the address to. It completes a request whose
	// address is invalid with ci.WCLocalOpErr.
	WriteDatagram(n ci.QPN, slot int, wr *ci.SendWR, to *ci.AVAttr)
}

// Source describes the sender of a datagram. It is a part of the CQE of a receive.
type Source struct {
	SrcQP    ci.QPN
	GRH      bool // the GRH is valid
	SLID     ci.LID
	SL       ci.SL
	PathBits uint8 // of the LID to which the datagram was sent
}

// complete sets the fields of a completion.
func (s *Source) complete(wc *ci.WC) {
	wc.SrcQP = s.SrcQP
	wc.SLID, wc.SL, wc.PathBits = s.SLID, s.SL, s.PathBits
	if s.GRH {
		wc.Flags |= ci.WCGRH
	}
}

// An av is an address vector. The hardware has none: it gets the address with each request.
type av struct {
	refs driver.Refs
	pd   *pd

	set  sync.Mutex
	attr ci.AVAttr
}

var _ ci.AV = (*av)(nil)

// CreateAV creates an address vector. Values are not checked: a send with a bad one completes with WCLocalOpErr.
// Status: InsufficientResources, InvalidPDHandle, InvalidParameter (private data). Context: callback.
func (p *pd) CreateAV(attr ci.AVAttr) (ci.AV, error) {
	const verb = "PD.CreateAV"
	data, err := openPrivate(verb, attr.User) // user.go
	if err != nil {                           // user.go
		return nil, err
	}
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	if err := p.hca.avs.Take(verb); err != nil {
		p.refs.Put()
		return nil, err
	}
	attr.User = nil               // attr is kept, and the private data must not be
	data.answer(userabi.Answer{}) // user.go
	return &av{pd: p, attr: attr}, nil
}

// Query returns the attributes and the PD. Status: InvalidAVHandle.
func (a *av) Query() (ci.AVAttr, ci.PD, error) {
	if !a.refs.Alive() {
		return ci.AVAttr{}, nil, fail("AV.Query", ci.InvalidAVHandle, "")
	}
	a.set.Lock()
	defer a.set.Unlock()
	return a.attr, a.pd, nil
}

// Modify replaces the attributes. Requests that were posted keep the old ones. Status: InvalidAVHandle.
func (a *av) Modify(attr ci.AVAttr) error {
	const verb = "AV.Modify"
	if !a.refs.Alive() {
		return fail(verb, ci.InvalidAVHandle, "")
	}
	data, err := openPrivate(verb, attr.User) // user.go
	if err != nil {                           // user.go
		return err
	}
	attr.User = nil
	a.set.Lock()
	a.attr = attr
	a.set.Unlock()
	data.answer(userabi.Answer{}) // user.go
	return nil
}

// Destroy destroys the vector. Status: InvalidAVHandle. Context: callback.
func (a *av) Destroy() error {
	if err := a.refs.BeginDestroy("AV.Destroy", ci.InvalidAVHandle); err != nil {
		return err
	}
	a.pd.hca.avs.Give()
	a.pd.refs.Put()
	return nil
}

// resolve sets q.to to the address of a vector. It reports whether the vector is valid, and of the QP's PD. The caller
// holds sq.post.
func (q *qp) resolve(v ci.AV) bool {
	a, ok := ci.As[*av](v)
	if !ok || a.pd != q.pd || !a.refs.Alive() {
		return false
	}
	a.set.Lock()
	q.to = a.attr
	a.set.Unlock()
	return true
}
