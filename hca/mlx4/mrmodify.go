package mlx4

import (
	"ciddk/ci"
)

// Modify replaces the region: its keys always change. The new one exists before the old one goes, so that a failure
// changes nothing. Status: as PD.RegisterMR; ResourceBusy (a window is bound), InvalidMRHandle.
func (m *mr) Modify(set ci.MRField, to ci.PD, c ci.MRCreate) error {
	const verb = "MR.Modify"
	return m.change(verb, set, to, c.Access, func() (*grant, error) { return m.hca.place(verb, &c) })
}

// ModifyPMR is Modify with DMA addresses. Status: as Modify; InvalidPermission for the region of a process.
func (m *mr) ModifyPMR(set ci.MRField, to ci.PD, c ci.PMRCreate) error {
	const verb = "MR.ModifyPMR"
	if m.now.Load().pd.user != nil {
		return fail(verb, ci.InvalidPermission, "the PD is that of a client process")
	}
	return m.change(verb, set, to, c.Access, func() (*grant, error) { return m.hca.placePhysical(verb, &c) })
}

// change executes a change. place returns a grant with the new storage.
func (m *mr) change(verb string, set ci.MRField, to ci.PD, access ci.Access, place func() (*grant, error)) (err error) {
	m.modify.Lock()
	defer m.modify.Unlock()
	switch {
	case !m.refs.Alive():
		return fail(verb, ci.InvalidMRHandle, "")
	case set == 0 || set&^(ci.MRFieldMemory|ci.MRFieldPD|ci.MRFieldAccess) != 0:
		return fail(verb, ci.InvalidParameter, "no field, or an unknown one")
	case m.maxPages != 0:
		return fail(verb, ci.InvalidParameter, "a fast registration region is changed by OpFastReg")
	}
	old := m.now.Load()
	target, face := old.pd, old.face
	if set&ci.MRFieldAccess == 0 {
		access = old.access
	} else if err := checkAccess(verb, access); err != nil {
		return err
	}
	var u undo
	defer u.run(&err)
	if set&ci.MRFieldPD != 0 {
		d, ok := ci.As[*pd](to)
		if !ok || d.hca != m.hca || !d.refs.Get() {
			return fail(verb, ci.InvalidPDHandle, "pd is not a PD of this adapter")
		}
		u.add(d.refs.Put)
		target, face = d, to
	}
	var g *grant
	if set&ci.MRFieldMemory != 0 {
		if g, err = place(); err != nil {
			return err
		}
	} else {
		g = old.share()
	}
	u.add(g.drop)
	g.pd, g.face, g.access = target, face, access
	if err := m.hca.enter(verb, g); err != nil {
		return err
	}
	if e := m.hca.leave(old); e != nil {
		_ = m.hca.leave(g) // nothing uses it; the first error is the one to return
		u = u[:len(u)-1]
		return firmwareError(verb, e)
	}
	m.now.Store(g)
	if set&ci.MRFieldPD != 0 {
		old.pd.refs.Put()
	}
	return nil
}

// share returns a grant with the same storage.
func (g *grant) share() *grant {
	n := &grant{region: g.region, pages: g.pages, dmas: g.dmas, source: g.source}
	n.region.RKey = 0
	if g.s != nil {
		n.s = g.s.share()
	}
	for _, d := range n.dmas {
		d.refs.Get() // cannot fail: g has a reference
	}
	if n.source != nil {
		n.source.refs.Get() // cannot fail: g has a reference
	}
	return n
}
