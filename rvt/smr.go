package rvt

import "ciddk/ci"

// RegisterSMR creates a second region over the storage of src. As with a physical region, the address has the offset in
// its page that src has (IBTA volume 1, 11.2.8.7).
func (d *PD) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	const verb = "PD.RegisterSMR"
	dev := d.dev
	switch {
	case !d.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle)
	case !dev.attr.Caps.Has(ci.CapSharedMR):
		return d.UnimplementedPD.RegisterSMR(src, iova, access)
	}
	s, ok := ci.As[*MR](src)
	if !ok || s.dev != dev || s.process != d.process || !s.refs.Alive() {
		return nil, handle(verb, ci.InvalidMRHandle, "src", src)
	}
	if s.maxPages != 0 {
		return nil, failf(verb, ci.InvalidMRHandle, "a fast registration region has no storage of its own to share")
	}
	if err := dev.checkAccess(verb, access); err != nil {
		return nil, err
	}
	p, err := s.share(verb, iova)
	if err != nil {
		return nil, err
	}
	m, err := d.newMR(verb, p, access, s, 0)
	if err != nil {
		s.refs.Put()
	}
	return m, err
}

// share takes a reference on the region and returns a place over its storage.
func (m *MR) share(verb string, iova uint64) (*place, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.refs.Alive() {
		return nil, fail(verb, ci.InvalidMRHandle)
	}
	g := m.slot.now.Load()
	p := &place{va: g.va, length: g.length, bytes: g.bytes, dmas: g.dmas}
	if iova != 0 {
		mask := m.dev.pageSize() - 1
		p.va = iova&^mask | g.va&mask
		if err := m.dev.checkRange(verb, p.va, p.length); err != nil {
			return nil, err
		}
	}
	for _, d := range p.dmas { // cannot fail: g has one
		d.refs.Get()
		d.enter()
	}
	m.refs.Get() // cannot fail: Destroy needs mu
	return p, nil
}
