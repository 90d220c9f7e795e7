package smasuite

import (
	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// What consumers of the access layer see of a subnet manager's Sets.
var consumers = linkArea()

const pnp = "Client.RegisterPnP"

var smaEvent01 = consumers.Must("SMA-Event-01", "SAS 2.1", pnp, "Consumers are notified of a new LID.")

var smaEvent02 = consumers.Must("SMA-Event-02", "SAS 2.1", pnp, "Consumers are notified of a new subnet manager.")

var smaEvent03 = consumers.Must("SMA-Event-03", "SAS 2.1", pnp, "Consumers are notified of new P_Keys.")

var smaEvent04 = consumers.Must("SMA-Event-04", "SAS 2.1", pnp, "Consumers are notified of a new GID prefix.")

var smaEvent05 = consumers.Must("SMA-Event-05", "SAS 2.1", pnp, "Consumers are notified of a new SubnetTimeOut.")

var smaEvent06 = consumers.Must("SMA-Event-06", "IBTA 14.4.11", pnp,
	"Consumers are notified when the subnet manager wants clients to register again.")

var smaEvent07 = consumers.Must("SMA-Event-07", "SAS 2.1", pnp,
	"Consumers are notified when the port goes down, and of each state on its way up.")

// notified returns a case in which a Set from another port causes events.
func notified(id, what string, run func(l *linked)) validate.Case {
	return validate.Case{ID: "sma.consumer." + id, Title: what + " by a Set from another port",
		Run: func(t *validate.T) {
			run(link(t))
		}}
}

// changes returns a case in which a Set of PortInfo causes an event.
func changes(id, what string, e accesslayer.PortEventType, change func(i *mad.PortInfo)) validate.Case {
	return notified(id, what, func(l *linked) {
		l.forget()
		l.change(change)
		l.await(e, "a Set of "+what)
	})
}

var _ = consumers.Case(changes("lid", "LID", accesslayer.PortLID, func(i *mad.PortInfo) { i.LID += 0x100 }), smaEvent01)

var _ = consumers.Case(changes("sm", "MasterSMLID", accesslayer.PortSM,
	func(i *mad.PortInfo) { i.MasterSMLID ^= 0x55 }), smaEvent02)

var _ = consumers.Case(changes("prefix", "GidPrefix", accesslayer.PortGID,
	func(i *mad.PortInfo) { i.GIDPrefix = 0xfec0000000000002 }), smaEvent04)

var _ = consumers.Case(changes("timeout", "SubnetTimeOut", accesslayer.PortSubnetTimeout,
	func(i *mad.PortInfo) { i.SubnetTimeout ^= 3 }), smaEvent05)

var _ = consumers.Case(changes("reregister", "ClientReregister", accesslayer.PortReregister,
	func(i *mad.PortInfo) { i.ClientReregister = true }), smaEvent06)

var _ = consumers.Case(notified("pkeys", "P_KeyTable", func(l *linked) {
	l.forget()
	l.put(mad.AttrPKeyTable, 0, &mad.PKeyBlock{0xffff, 0x8123}, mad.StatusOK)
	l.await(accesslayer.PortPKey, "a Set of P_KeyTable")
}), smaEvent03)

var _ = consumers.Case(notified("states", "PortState", func(l *linked) {
	l.forget()
	l.change(func(i *mad.PortInfo) { i.State = uint8(ci.PortDown) })
	l.await(accesslayer.PortDown, "a Set of Down")
	l.awaitState(ci.PortInit)
	l.await(accesslayer.PortInit, "the link has trained")
	for _, s := range []struct {
		state ci.PortState
		event accesslayer.PortEventType
	}{{ci.PortArmed, accesslayer.PortArmed}, {ci.PortActive, accesslayer.PortActive}} {
		l.forget()
		now := l.change(func(i *mad.PortInfo) { i.State = uint8(s.state) })
		kit.Equal(l.t, "PortInfo.PortState in the response", ci.PortState(now.State), s.state)
		l.await(s.event, "a Set of "+s.state.String())
	}
}), smaEvent07)
