package validate

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ciddk/ci"
)

// M_Keys that cases set, and that a case which was stopped may have left behind.
const (
	MKey      uint64 = 0x1122334455667788
	OtherMKey uint64 = 0x8877665544332211
)

// A preserved has the attributes of the adapters that cases change. An adapter may keep them when its target is closed,
// as firmware does, so the executor restores them after a case that spoils the target, or that did not pass.
type preserved struct {
	attrs  []*ci.CAAttr // of each HCA; nil if it could not be queried
	tables map[subnetTable][64]byte
}

// A subnetTable is an attribute of subnet management that a Set writes as a whole.
type subnetTable struct {
	hca            int
	port           uint8
	attr, modifier uint32
}

// Attributes and fields of subnet management (IBTA volume 1, 14.2.5).
const (
	smpGUIDInfo = 0x14
	smpPortInfo = 0x15
	smpPKeys    = 0x16
	smpSLToVL   = 0x17
	smpVLArb    = 0x18
	smpLedInfo  = 0x31

	portInfoLID        = 16
	portInfoState      = 32
	portInfoPhys       = 33
	portInfoViolations = 44
	physPolling        = 2
)

// visit opens each HCA of a target and calls f with it. A driver that fails the open is reported by the cases. first
// has the attributes of the first one if they are known: a driver whose second query fails is reported by the cases,
// too.
func visit(t *Target, first *ci.CAAttr, f func(i int, ca ci.CA, a *ci.CAAttr)) {
	for i, h := range t.HCAs {
		ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
		if err != nil || ci.IsNil(ca) {
			continue
		}
		if i == 0 && first != nil {
			f(i, ca, first)
		} else if a, err := ca.Query(); err == nil && a != nil {
			f(i, ca, a)
		}
		_ = ca.Destroy()
	}
}

// limits returns the attributes of an HCA, or none if they are not known.
func (p *preserved) limits(i int) *ci.CAAttr {
	if p == nil || p.attrs[i] == nil {
		return &ci.CAAttr{}
	}
	return p.attrs[i]
}

// preserve returns what restore restores.
func preserve(t *Target, first *ci.CAAttr) *preserved {
	p := &preserved{attrs: make([]*ci.CAAttr, len(t.HCAs)), tables: map[subnetTable][64]byte{}}
	visit(t, first, func(i int, ca ci.CA, a *ci.CAAttr) {
		p.attrs[i] = a
		eachTable(i, a, func(k subnetTable) {
			unlock(ca, k)
			if data, ok := subnet(ca, k, 0, nil); ok {
				p.tables[k] = data
			}
		})
	})
	return p
}

// eachTable calls f for the tables of the ports that CA.LocalMAD reaches, first for the PortInfo of a port.
func eachTable(i int, a *ci.CAAttr, f func(subnetTable)) {
	for n := range a.Ports {
		p := &a.Ports[n]
		if p.Link != ci.LinkInfiniBand || !a.Caps.Has(ci.CapLocalMAD) || p.HardwareAgents {
			continue
		}
		list := []subnetTable{{attr: smpPortInfo}, {attr: smpSLToVL}, {attr: smpLedInfo},
			{attr: smpVLArb, modifier: 1 << 16}, {attr: smpVLArb, modifier: 3 << 16}}
		for b := range (len(p.PKeys) + 31) / 32 {
			list = append(list, subnetTable{attr: smpPKeys, modifier: uint32(b)})
		}
		for b := range (len(p.GIDs) + 7) / 8 {
			list = append(list, subnetTable{attr: smpGUIDInfo, modifier: uint32(b)})
		}
		for _, k := range list {
			k.hca, k.port = i, p.Num
			f(k)
		}
	}
}

// subnet executes a Get of a table or, with data, a Set.
func subnet(ca ci.CA, k subnetTable, key uint64, set *[64]byte) (data [64]byte, ok bool) {
	in, out := ci.MAD{0: 1, 1: 1, 2: 1, 3: 1}, ci.MAD{}
	binary.BigEndian.PutUint64(in[8:], 0x0ddc)
	binary.BigEndian.PutUint16(in[16:], uint16(k.attr))
	binary.BigEndian.PutUint32(in[20:], k.modifier)
	binary.BigEndian.PutUint64(in[24:], key)
	if set != nil {
		in[3] = 2
		copy(in[64:128], set[:])
	}
	err := ca.LocalMAD(k.port, nil, &in, &out)
	copy(data[:], out[64:128])
	return data, err == nil && out[3] == 0x81 && out[4]|out[5] == 0
}

// unlock removes an M_Key that a case has left behind.
func unlock(ca ci.CA, k subnetTable) {
	if k.attr != smpPortInfo {
		return
	}
	data, ok := subnet(ca, k, 0, nil)
	if ok && data[portInfoPhys+1]>>6 == 0 && binary.BigEndian.Uint64(data[:]) == 0 {
		return
	}
	for _, key := range []uint64{MKey, OtherMKey, 0} {
		if data, ok = subnet(ca, k, key, nil); !ok {
			continue
		}
		data = writable(data)
		clear(data[:8])
		data[portInfoPhys+1] &= 0x3f
		if _, ok = subnet(ca, k, key, &data); ok {
			return
		}
	}
}

// writable returns a PortInfo for a Set that changes no state, and that has no counters of violations.
func writable(d [64]byte) [64]byte {
	d[portInfoState] &^= 0x0f
	d[portInfoPhys] &= 0x0f
	clear(d[portInfoViolations : portInfoViolations+6])
	return d
}

// restore restores what differs from the beginning. It reports a port that was active then and is not.
func (p *preserved) restore(ctx context.Context, t *Target) (down string) {
	limit, _ := ctx.Deadline()
	patience := time.Until(limit) / 4
	for begin, tried := time.Now(), false; ; {
		down = ""
		visit(t, nil, func(i int, ca ci.CA, a *ci.CAAttr) {
			was := p.attrs[i]
			if was == nil || len(was.Ports) != len(a.Ports) {
				return
			}
			if a.Caps.Has(ci.CapSystemGUID) && a.SystemGUID != was.SystemGUID {
				_ = ca.Modify(1, ci.PortFieldSystemGUID, ci.PortModify{SystemGUID: was.SystemGUID})
			}
			eachTable(i, a, func(k subnetTable) { p.restoreTable(ca, k) })
			for n := range a.Ports {
				now, old := &a.Ports[n], &was.Ports[n]
				restorePort(ca, a.Caps, now, old)
				if old.State != ci.PortActive || now.State == ci.PortActive {
					continue
				}
				down = fmt.Sprintf("port %d of HCA %d is %v", now.Num, i+1, now.State)
				if time.Since(begin) > patience { // its link, or a subnet manager, had the time to bring it up
					raise(t, i, ca, now.Num, tried)
					tried = true
				}
			}
		})
		if down == "" || ctx.Err() != nil {
			return down
		}
		pause := time.NewTimer(20 * time.Millisecond)
		<-pause.C
	}
}

// restoreTable restores a table, as far as the agent permits.
func (p *preserved) restoreTable(ca ci.CA, k subnetTable) {
	unlock(ca, k)
	was, ok := p.tables[k]
	now, answered := subnet(ca, k, 0, nil)
	if !ok || !answered {
		return
	}
	if k.attr == smpPortInfo {
		if was, now = writable(was), writable(now); binary.BigEndian.Uint16(was[portInfoLID:]) == 0 {
			return // no Set can write this LID
		}
	}
	if was != now {
		subnet(ca, k, 0, &was)
	}
}

// expectActive makes restore expect a port of each adapter to become active, if none was when the state was read.
func (p *preserved) expectActive() {
	for _, a := range p.attrs {
		if a != nil && len(a.Ports) > 0 &&
			!slices.ContainsFunc(a.Ports, func(p ci.PortAttr) bool { return p.State == ci.PortActive }) {
			a.Ports[0].State = ci.PortActive
		}
	}
}

// restoreState restores what earlier cases have changed in the adapters of a target that was just opened. An error
// says that a port does not come up again.
func (e *executor) restoreState(ctx context.Context, t *Target, first *ci.CAAttr) error {
	by, kept := e.spoiledBy, e.kept
	if kept != nil && by == "" {
		return nil
	}
	own := *t
	own.HCAs = slices.Clone(t.HCAs) // a goroutine that goes on after the deadline does not see what the caller changes
	t = &own
	type outcome struct {
		kept *preserved
		down string
	}
	done := make(chan outcome, 1)
	limit, _ := ctx.Deadline()
	patient, cancel := context.WithTimeout(ctx, time.Until(limit)/2) // the other half is for a driver that is slow
	defer cancel()
	go func() { // a faulty driver may block, which the next case reports
		var o outcome
		defer func() { _ = recover(); done <- o }()
		if o.kept = kept; kept == nil {
			if o.kept = preserve(t, first); by != "" {
				o.kept.expectActive()
			}
		}
		if by != "" {
			o.down = o.kept.restore(patient, t)
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	case o := <-done:
		if e.kept = o.kept; o.down != "" {
			return fmt.Errorf("%s since the case %s, and neither closing and opening the target nor subnet management "+
				"brings it up: let Driver.Open or OpenCA bring it up, or set Target.SetLink (docs/vendors.md, "+
				"Adapters that keep their state)", o.down, by)
		}
	}
	e.spoiledBy = ""
	return nil
}

// restorePort restores what CA.Modify changes.
func restorePort(ca ci.CA, caps ci.Caps, now, old *ci.PortAttr) {
	m := ci.PortModify{CapMask: now.Capability ^ old.Capability, Capability: old.Capability, PKeyErrors: old.PKeyErrors,
		QKeyErrors: old.QKeyErrors}
	var set ci.PortField
	if m.CapMask != 0 {
		set |= ci.PortFieldCapability
	}
	if caps.Has(ci.CapPKeyCounter) && now.PKeyErrors != old.PKeyErrors {
		set |= ci.PortFieldPKeyErrors
	}
	if caps.Has(ci.CapQKeyCounter) && now.QKeyErrors != old.QKeyErrors {
		set |= ci.PortFieldQKeyErrors
	}
	if set != 0 {
		_ = ca.Modify(now.Num, set, m)
	}
}

// raise brings a port up by what the target offers: its cable, once, or subnet management.
func raise(t *Target, hca int, ca ci.CA, port uint8, tried bool) {
	if !tried && hca == 0 && port == 1 && t.SetLink != nil {
		_ = t.SetLink(true) // a link that stays down is reported
	}
	k := subnetTable{port: port, attr: smpPortInfo}
	data, ok := subnet(ca, k, 0, nil)
	if !ok {
		return
	}
	state := ci.PortState(data[portInfoState] & 0x0f)
	data = writable(data)
	switch state {
	case ci.PortDown:
		data[portInfoPhys] |= physPolling << 4
	case ci.PortInit:
		data[portInfoState] |= byte(ci.PortArmed)
	case ci.PortArmed:
		data[portInfoState] |= byte(ci.PortActive)
	}
	subnet(ca, k, 0, &data)
}
