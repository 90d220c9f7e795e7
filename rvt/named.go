package rvt

import "ciddk/ci"

// Objects whose keys the driver names. A driver whose consumer chooses keys, as that of a model of a device, makes its
// regions and windows with these methods. A key is in use as long as an object has its upper 24 bits; work requests may
// change the lower 8 bits (OpFastReg, OpBindMW). Key 0 and those whose upper 24 bits are zero are invalid.

// namedKey returns the reservation of a key for addMR.
func (d *device) namedKey(key ci.Key) func(keyOwner) (*slot, ci.Key, bool) {
	return func(o keyOwner) (*slot, ci.Key, bool) {
		if key>>8 == 0 {
			return nil, 0, false
		}
		s, ok := d.keys.reserveKey(o, key)
		return s, key, ok
	}
}

// RegisterNamed is RegisterMR with a key.
func (d *PD) RegisterNamed(key ci.Key, c ci.MRCreate) (ci.MR, error) {
	return d.registerNamed(&MR{access: c.Access}, key, &c)
}

// Withdraw makes the keys of a region invalid at once, and free for another one. Unlike Destroy, which must follow, it
// does not wait for accesses in progress, so that Ops.KeyMiss may call it.
func (m *MR) Withdraw() { m.dev.keys.release(m.slot) }

// RegisterReserved is RegisterNamed for the key that IBTA calls the reserved L_Key: local accesses of all protection
// domains may use the region. The driver decides which work requests may have the key (IBTA volume 1, 10.6.3.7).
func (d *PD) RegisterReserved(key ci.Key, m ci.Memory) (ci.MR, error) {
	c := ci.MRCreate{Memory: m, Access: ci.LocalWrite}
	return d.registerNamed(&MR{access: c.Access, anyPD: true}, key, &c)
}

func (d *PD) registerNamed(m *MR, key ci.Key, c *ci.MRCreate) (ci.MR, error) {
	const verb = "PD.RegisterNamed"
	dev := d.dev
	if !d.refs.Alive() {
		return nil, fail(verb, ci.InvalidPDHandle)
	}
	if err := dev.checkAccess(verb, c.Access); err != nil {
		return nil, err
	}
	p, err := dev.place(verb, c, c.Access)
	if err != nil {
		return nil, err
	}
	if err := d.addMR(verb, m, p, dev.namedKey(key)); err != nil {
		return nil, err
	}
	return m, nil
}

// AllocFastRegNamed is AllocFastRegMR with a key.
func (d *PD) AllocFastRegNamed(key ci.Key, maxPages int) (ci.MR, error) {
	const verb = "PD.AllocFastRegNamed"
	dev := d.dev
	switch {
	case !d.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle)
	case !dev.attr.Caps.Has(ci.CapFastReg):
		return nil, fail(verb, ci.Unsupported)
	case maxPages < 1 || maxPages > dev.attr.MaxFastRegPages:
		return nil, outside(verb, ci.InvalidParameter, "maxPages", maxPages, 1, dev.attr.MaxFastRegPages)
	}
	m := &MR{maxPages: maxPages}
	if err := d.addMR(verb, m, nil, dev.namedKey(key)); err != nil {
		return nil, err
	}
	return m, nil
}

// CreateNamedMW is CreateMW with a key.
func (d *PD) CreateNamedMW(key ci.Key, typ ci.MWType) (ci.MW, error) {
	return d.newMW("PD.CreateNamedMW", typ, d.dev.namedKey(key))
}
