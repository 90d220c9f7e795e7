package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// raise reports an event to the EQ that the driver has mapped for its type. Without one the event is lost.
func (m *Model) raise(event uint8, subtype uint8, fill func(b []byte)) {
	if e := m.eqs.of(event); e != nil {
		m.raiseTo(e, event, subtype, fill)
	}
}

// raiseTo appends an event to an EQ. If the queue is full, the event is lost and the overflow is reported.
func (m *Model) raiseTo(e *eq, event, subtype uint8, fill func(b []byte)) {
	var b [eqeSize]byte
	prm.EQEType.Put(b[:], uint64(event))
	prm.EQESubtype.Put(b[:], uint64(subtype))
	if fill != nil {
		fill(b[:])
	}
	if !e.put(&b) && event != prm.EventEQOverflow {
		m.eqOverflow(e)
	}
}

// eqOverflow reports that an event was lost, by another EQ.
func (m *Model) eqOverflow(full *eq) {
	if e := m.eqs.of(prm.EventEQOverflow); e != nil && e != full {
		m.raiseTo(e, prm.EventEQOverflow, 0, nil)
	}
}

// commandDone reports that a command is complete.
func (m *Model) commandDone(token uint16, s prm.Status, out uint64) {
	m.raise(prm.EventCommand, 0, func(b []byte) {
		prm.EQEToken.Put(b, uint64(token))
		prm.EQEStatus.Put(b, uint64(s))
		prm.EQEOutHigh.Put(b, out>>32)
		prm.EQEOutLow.Put(b, out)
	})
}

// portEvent takes an event of the transport's ports. A port that is closed reports only that it is down.
func (m *Model) portEvent(e ci.Event) {
	p := m.port(e.Port)
	if p == nil {
		return
	}
	if e.Type == ci.EventPortDown {
		p.changed(prm.PortChangeDown)
	}
	if !p.isOpen() {
		return
	}
	switch e.Type {
	case ci.EventPortActive:
		p.changed(prm.PortChangeActive)
	case ci.EventLIDChange:
		p.managed(prm.MgmtPortInfo, prm.MgmtLIDChanged)
	case ci.EventSMChange:
		p.managed(prm.MgmtPortInfo, prm.MgmtSMLIDChanged|prm.MgmtSMSLChanged)
	case ci.EventReregister:
		p.managed(prm.MgmtPortInfo, prm.MgmtReregister)
	case ci.EventGIDChange:
		p.managed(prm.MgmtGUIDInfo, 0)
	case ci.EventPKeyChange:
		p.managed(prm.MgmtPKeyTable, 0)
	}
}

// changed reports that the port has come up or gone down.
func (p *port) changed(subtype uint8) {
	p.m.raise(prm.EventPortChange, subtype, func(b []byte) { prm.EQEPort.Put(b, uint64(p.num)) })
	if subtype == prm.PortChangeActive && !p.isEthernet() {
		p.managed(prm.MgmtPortInfo, prm.MgmtLIDChanged|prm.MgmtSMLIDChanged|prm.MgmtGIDPrefixChanged)
	}
}

// managed reports a change that subnet management has made.
func (p *port) managed(subtype uint8, attrs uint64) {
	if p.isEthernet() {
		return
	}
	a := p.link.Attr()
	p.m.raise(prm.EventPortMgmtChange, subtype, func(b []byte) {
		prm.EQEMgmtPort.Put(b, uint64(p.num))
		if subtype != prm.MgmtPortInfo {
			prm.EQEMgmtMask.Put(b, prm.EQEMgmtMask.Max()) // all entries of the first block
			return
		}
		prm.EQEMgmtAttr.Put(b, attrs)
		prm.EQEMgmtLID.Put(b, uint64(a.LID))
		prm.EQEMgmtSMLID.Put(b, uint64(a.SMLID))
		prm.EQEMgmtSMSL.Put(b, uint64(a.SMSL))
		if len(a.GIDs) > 0 {
			copy(prm.EQEMgmtGID.Bytes(b, 8), a.GIDs[0].GID[:8])
		}
	})
}
