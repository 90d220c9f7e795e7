package accesslayer

import (
	"fmt"

	"ciddk/ci"
)

func tooMany(verb string, s ci.Status, what string, n, limit int) error {
	return &ci.Error{Verb: verb, Status: s, Detail: fmt.Sprintf("%s is %d, must be 1 to %d", what, n, limit)}
}

// MR is a memory region. It is a ci.MR. If the driver refuses Destroy because a window is bound, the region stays
// usable. Destroy fails while a shared region that was made from it exists.
type MR struct {
	object
	mrVerbs
	ca *CA
	pd *PD // guarded by al.mu, since Modify may change it
}

func (m *MR) Unwrap() any { return m.mrVerbs.MR }

// PD returns the parent, which Modify may change.
func (m *MR) PD() *PD {
	m.n.al.mu.Lock()
	defer m.n.al.mu.Unlock()
	return m.pd
}

func (p *PD) newMR(verb string, create func() (ci.MR, error), uses ...*node) (*MR, error) {
	m := &MR{ca: p.ca, pd: p}
	m.n = &node{kind: kindMR, obj: m}
	err := m.n.make(p.n, verb, func() (func() error, error) {
		in, err := create()
		m.mrVerbs.MR = in
		return destroyer(in), err
	}, uses...)
	return made(m, err)
}

// NewMR registers storage. Status: as ci.PD.RegisterMR; InvalidState with ErrClosed.
func (p *PD) NewMR(c ci.MRCreate) (*MR, error) {
	return p.newMR("PD.RegisterMR", func() (ci.MR, error) { return p.verbs.RegisterMR(c) })
}

// NewPMR registers DMA addresses. Status: as ci.PD.RegisterPMR; InvalidState with ErrClosed.
func (p *PD) NewPMR(c ci.PMRCreate) (*MR, error) {
	return p.newMR("PD.RegisterPMR", func() (ci.MR, error) { return p.verbs.RegisterPMR(c) })
}

// NewSMR registers the pages of src a second time. Status: as ci.PD.RegisterSMR; InvalidMRHandle if src is not of this
// access layer and HCA; InvalidState with ErrClosed.
func (p *PD) NewSMR(src ci.MR, iova uint64, access ci.Access) (*MR, error) {
	const verb = "PD.RegisterSMR"
	uses, err := use(nil, p.ca, verb, kindMR, "src", src, func(m *MR) *CA { return m.ca })
	if err != nil {
		return nil, err
	}
	return p.newMR(verb, func() (ci.MR, error) { return p.verbs.RegisterSMR(src, iova, access) }, uses...)
}

// NewFastRegMR creates a region without pages, for ci.OpFastReg. Status: as ci.PD.AllocFastRegMR; InvalidState with
// ErrClosed.
func (p *PD) NewFastRegMR(maxPages int) (*MR, error) {
	return p.newMR("PD.AllocFastRegMR", func() (ci.MR, error) { return p.verbs.AllocFastRegMR(maxPages) })
}

// Query returns the attributes. Status: as ci.MR.Query; InvalidMRHandle with ErrClosed.
func (m *MR) Query() (attr ci.MRAttr, err error) {
	err = m.n.during("MR.Query", func() error { attr, err = m.mrVerbs.Query(); return err })
	if err == nil {
		attr.PD = m.PD().CI()
	}
	return attr, err
}

// Modify changes the region. With ci.MRFieldPD, the region moves to the other PD in the object tree, too. Status: as
// ci.MR.Modify; InvalidPDHandle if the PD is not of this access layer and HCA; InvalidMRHandle with ErrClosed.
func (m *MR) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	return m.modify("MR.Modify", set, pd, func() error { return m.mrVerbs.Modify(set, pd, c) })
}

// ModifyPMR is Modify with DMA addresses.
func (m *MR) ModifyPMR(set ci.MRField, pd ci.PD, c ci.PMRCreate) error {
	return m.modify("MR.ModifyPMR", set, pd, func() error { return m.mrVerbs.ModifyPMR(set, pd, c) })
}

func (m *MR) modify(verb string, set ci.MRField, pd ci.PD, f func() error) error {
	if set&ci.MRFieldPD == 0 || pd == nil {
		return m.n.during(verb, f)
	}
	if ci.IsNil(pd) {
		return &ci.Error{Verb: verb, Status: ci.InvalidPDHandle, Detail: "pd is a nil pointer"}
	}
	to, ok := own[*PD](m.n.al, pd)
	if !ok || to.ca.a != m.ca.a {
		return &ci.Error{Verb: verb, Status: ci.InvalidPDHandle, Detail: "the PD is not an object of this access " +
			"layer and HCA"}
	}
	// Both objects are referenced during the verb, so that the driver destroys neither PD before the region has moved.
	if err := to.n.enter(verb); err != nil {
		return err
	}
	defer to.n.leave()
	return m.n.during(verb, func() error {
		if err := f(); err != nil {
			return err
		}
		m.n.move(to.n, func() { m.pd = to })
		return nil
	})
}

// move makes n a child of another parent. If the destruction of the new parent has begun meanwhile, n is destroyed,
// too.
func (n *node) move(to *node, done func()) {
	var ready []*node
	n.al.mu.Lock()
	from := n.parent
	n.unlink()
	n.link(to)
	to.refs++
	from.drop(&ready)
	done()
	if to.state >= destroying {
		n.begin(&ready)
	}
	n.al.mu.Unlock()
	n.al.schedule(ready)
}

// MW is a memory window. It is a ci.MW; QP.BindMW binds it.
type MW struct {
	object
	mwVerbs
	pd *PD
}

func (w *MW) Unwrap() any { return w.mwVerbs.MW }

// NewMW creates a window. Status: as ci.PD.CreateMW; InvalidState with ErrClosed.
func (p *PD) NewMW(c ci.MWCreate) (*MW, error) {
	w := &MW{pd: p}
	w.n = &node{kind: kindMW, obj: w}
	err := w.n.make(p.n, "PD.CreateMW", func() (func() error, error) {
		in, err := p.verbs.CreateMW(c)
		w.mwVerbs.MW = in
		return destroyer(in), err
	})
	return made(w, err)
}

// Query returns the attributes. Status: as ci.MW.Query; InvalidMWHandle with ErrClosed.
func (w *MW) Query() (attr ci.MWAttr, err error) {
	err = w.n.during("MW.Query", func() error { attr, err = w.mwVerbs.Query(); return err })
	if err == nil {
		attr.PD = w.pd.CI()
	}
	return attr, err
}
