package rvt

import "ciddk/ci"

// migration is the state of a QP between Rearm and the migration.
type migration struct {
	psn      ci.PSN // of the packet that has armed the QP,
	response bool   // and whether that was a response, which have PSNs of their own
	refused  bool   // EventQPAPMError has been raised
}

// moveToAlternate moves an armed QP to its alternate path.
func (e *endpoint) moveToAlternate() {
	e.attr.APM = ci.APMMigrated
	e.apm = migration{}
	e.attr.Primary, e.attr.Alternate = e.attr.Alternate, ci.Path{}
	e.port, e.altPort = e.altPort, nil
	e.route, e.altRt = e.altRt, nil
	e.peer, e.altPeer = e.altPeer, Addr{}
	e.local, e.altGID = e.altGID, ci.GID{}
	e.attr.Port = e.port.num
	e.resetEntropy()
	e.home.Store(e.port)
	e.home2.Store(nil)
	e.loadPort()
	e.dev.count.add(CountMigrated, 1)
	e.notify.Event(ci.Event{Type: ci.EventQPAPM})
}

// altPKey returns the P_Key of the alternate path, or one that matches none if its index is not valid any more.
func (e *endpoint) altPKey() ci.PKey {
	k, _ := e.altPort.pkey(e.attr.Alternate.PKeyIndex)
	return k
}
