package direct

import (
	"ciddk/ci"
	"ciddk/mad"
)

// A Port's subnet management agent executes what a subnet manager must be able to read and set. The access layer's SMA
// uses it through CA.LocalMAD (SAS: ci_local_mad).

// SubnetMAD executes a subnet management datagram. It implements rvt.SMAPort.
func (p *Port) SubnetMAD(in, out *ci.MAD) {
	var s mad.SMP
	s.Parse(in[:])
	*out = ci.MAD{}
	if s.Method&mad.ResponseMask != 0 || s.Method == mad.TrapRepress || s.Method == mad.Trap || s.Method == mad.Send {
		return
	}
	request := s.Method
	directed := s.Class == mad.ClassSubnetDirected
	var status uint16 // mad.StatusOK
	var events []ci.EventType
	switch {
	case s.BaseVersion != 1 || s.ClassVersion != 1 || s.Class != mad.ClassSubnetLID && !directed:
		status = mad.StatusBadVersion
	case request != mad.Get && request != mad.Set:
		status = mad.StatusBadMethod
	default:
		p.mu.Lock()
		if !p.mayAccess(&s) {
			p.mu.Unlock()
			p.recv.PortEvent(ci.EventMKeyTrap)
			return
		}
		status, events = p.execute(&s)
		p.mu.Unlock()
	}
	s.Method = mad.GetResp
	s.Status = status
	if directed {
		s.Status |= mad.StatusDirection
	}
	s.Put(out[:])
	if request == mad.Set && status == mad.StatusOK && s.Attribute == mad.AttrPortInfo {
		p.link.refresh()
	}
	for _, e := range events {
		p.recv.PortEvent(e)
	}
}

// mayAccess checks the M_Key. The caller holds p.mu.
func (p *Port) mayAccess(s *mad.SMP) bool {
	i := &p.info
	if i.MKey == 0 || s.MKey == i.MKey || s.Method == mad.Get && i.MKeyProtect < 2 {
		return true
	}
	if i.MKeyViolations != 0xffff {
		i.MKeyViolations++
	}
	return false
}

// execute overwrites a Get or Set with its response. The caller holds p.mu, and raises the events after it has released
// it.
func (p *Port) execute(s *mad.SMP) (status uint16, events []ci.EventType) {
	set := s.Method == mad.Set
	if set && s.Attribute != mad.AttrPortInfo && s.Attribute != mad.AttrPKeyTable && s.Attribute != mad.AttrGUIDInfo {
		return mad.StatusBadMethodAttribute, nil
	}
	in := s.Data
	switch s.Attribute {
	case mad.AttrNodeDescription:
		s.Data = [mad.SMPDataLen]byte{}
		copy(s.Data[:], p.node.Description)
	case mad.AttrNodeInfo:
		n := mad.NodeInfo{BaseVersion: 1, ClassVersion: 1, Type: mad.NodeCA, NumPorts: p.node.NumPorts,
			SystemGUID: uint64(p.node.SystemGUID),
			NodeGUID:   uint64(p.node.GUID), PortGUID: p.guids[0], PartitionCap: numPKeys, DeviceID: p.node.DeviceID,
			Revision:  uint32(p.node.Revision),
			LocalPort: p.num, VendorID: p.node.VendorID}
		s.Data = [mad.SMPDataLen]byte{}
		n.Put(s.Data[:])
	case mad.AttrPortInfo:
		if s.Modifier != 0 && s.Modifier != uint32(p.num) {
			return mad.StatusBadField, nil
		}
		reregister := false
		if set {
			var want mad.PortInfo
			want.Parse(in[:])
			if !p.isValid(&want) {
				return mad.StatusBadField, nil
			}
			events = p.apply(&want)
			reregister = want.ClientReregister
		}
		shown := p.info
		shown.ClientReregister = reregister
		if shown.MKeyProtect != 0 && s.MKey != shown.MKey {
			shown.MKey = 0
		}
		shown.Put(s.Data[:])
	case mad.AttrPKeyTable:
		if s.Modifier&0xffff != 0 {
			return mad.StatusBadField, nil
		}
		var t mad.PKeyBlock
		if set {
			t.Parse(in[:])
			if [numPKeys]uint16(t[:numPKeys]) != p.pkeys {
				p.pkeys = [numPKeys]uint16(t[:numPKeys])
				events = append(events, ci.EventPKeyChange)
			}
		}
		t = mad.PKeyBlock{}
		copy(t[:], p.pkeys[:])
		t.Put(s.Data[:])
	case mad.AttrGUIDInfo:
		if s.Modifier != 0 {
			return mad.StatusBadField, nil
		}
		t := mad.GUIDBlock(p.guids)
		if set {
			var want mad.GUIDBlock
			want.Parse(in[:])
			want[0] = t[0] // the port's own, read only
			if want != t {
				t, p.guids = want, want
				events = append(events, ci.EventGIDChange)
			}
		}
		t.Put(s.Data[:])
	default:
		return mad.StatusBadMethodAttribute, nil
	}
	return mad.StatusOK, events
}

// isValid reports whether a Set(PortInfo) is valid as a whole. If not, none of it is applied (14.2.5.6). The caller
// holds p.mu.
func (p *Port) isValid(w *mad.PortInfo) bool {
	i := &p.info
	state := ci.PortState(w.State)
	cur := ci.PortState(i.State)
	stateOK := false
	switch state {
	case 0, ci.PortDown:
		stateOK = true
	case ci.PortArmed:
		stateOK = cur == ci.PortInit || cur == ci.PortArmed
	case ci.PortActive:
		stateOK = cur == ci.PortArmed || cur == ci.PortActive
	}
	width := w.WidthEnabled
	return stateOK &&
		w.PhysState <= physDisabled && (w.PhysState == 0 || state <= ci.PortDown) && w.LinkDownDefault <= physPolling &&
		w.LID != 0 && w.LID <= maxUnicastLID && w.LID&(1<<w.LMC-1) == 0 &&
		w.MasterSMLID != 0 && w.MasterSMLID <= maxUnicastLID &&
		(width == 0xff || width&^i.WidthSupported == 0) &&
		(w.SpeedEnabled == 15 || w.SpeedEnabled&^i.SpeedSupported == 0) &&
		w.NeighborMTU >= 1 && w.NeighborMTU <= i.MTUCap && w.OperationalVLs <= i.VLCap
}

// apply executes a valid Set(PortInfo) and returns the events that follow. The caller holds p.mu.
func (p *Port) apply(w *mad.PortInfo) (events []ci.EventType) {
	i := &p.info
	note := func(changed bool, e ci.EventType) {
		if changed {
			events = append(events, e)
		}
	}
	note(w.LID != i.LID || w.LMC != i.LMC, ci.EventLIDChange)
	note(w.MasterSMLID != i.MasterSMLID || w.MasterSMSL != i.MasterSMSL, ci.EventSMChange)
	note(w.GIDPrefix != i.GIDPrefix, ci.EventGIDChange)
	i.MKey, i.MKeyProtect, i.MKeyLease = w.MKey, w.MKeyProtect, w.MKeyLease
	i.GIDPrefix, i.LID, i.LMC = w.GIDPrefix, w.LID, w.LMC
	i.MasterSMLID, i.MasterSMSL = w.MasterSMLID, w.MasterSMSL
	p.publishLID()
	switch w.WidthEnabled {
	case 0:
	case 0xff:
		i.WidthEnabled = i.WidthSupported
	default:
		i.WidthEnabled = w.WidthEnabled
	}
	switch w.SpeedEnabled {
	case 0:
	case 15:
		i.SpeedEnabled = i.SpeedSupported
	default:
		i.SpeedEnabled = w.SpeedEnabled
	}
	i.NeighborMTU = w.NeighborMTU
	if w.OperationalVLs != 0 {
		i.OperationalVLs = w.OperationalVLs
	}
	if w.LinkDownDefault != 0 {
		i.LinkDownDefault = w.LinkDownDefault
	}
	i.VLHighLimit, i.InitType = w.VLHighLimit, w.InitType
	i.SubnetTimeout, i.Enforce = w.SubnetTimeout, w.Enforce
	i.InitTypeReply = w.InitTypeReply
	i.LocalPhyErrors, i.OverrunErrors = w.LocalPhyErrors, w.OverrunErrors
	i.HOQLife, i.VLStallCount = w.HOQLife, w.VLStallCount
	for _, c := range []struct{ to, from *uint16 }{{&i.MKeyViolations, &w.MKeyViolations},
		{&i.PKeyViolations, &w.PKeyViolations},
		{&i.QKeyViolations, &w.QKeyViolations}} {
		if *c.from == 0 {
			*c.to = 0
		}
	}
	old := ci.PortState(i.State)
	switch state := ci.PortState(w.State); {
	case w.PhysState == physDisabled:
		i.State, i.PhysState = uint8(ci.PortDown), physDisabled
	case w.PhysState != 0 || state == ci.PortDown && i.PhysState != physDisabled:
		// The link goes down and, since its other end is always there, trains again at once.
		i.State, i.PhysState = uint8(ci.PortInit), physUp
	case state >= ci.PortArmed:
		i.State = w.State
	}
	now := ci.PortState(i.State)
	p.state.Store(uint32(now))
	note(old == ci.PortActive && now != ci.PortActive, ci.EventPortDown)
	note(old != ci.PortActive && now == ci.PortActive, ci.EventPortActive)
	note(old != ci.PortInit && now == ci.PortInit, ci.EventPortInit)
	note(w.ClientReregister, ci.EventReregister)
	return events
}
