package cmsuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Subnet management of the port itself: directed routes without hops, managers, and traps of the adapter's events.

// subnetMAD returns a subnet management datagram.
func subnetMAD(method mad.Method, attr uint16, tid uint64, data []byte) []byte {
	m := make([]byte, mad.Size)
	(&mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID, ClassVersion: mad.ClassVersionSubnet,
		Method: method, TID: tid, Attribute: attr}).Put(m)
	copy(m[64:], data)
	return m
}

// directedMAD returns a datagram with a directed route through ports.
func directedMAD(method mad.Method, attr uint16, tid uint64, ports ...uint8) []byte {
	m := subnetMAD(method, attr, tid, nil)
	m[1] = byte(mad.ClassSubnetDirected)
	m[7] = byte(len(ports))
	copy(m[32:], "\xff\xff\xff\xff")
	copy(m[129:], ports)
	return m
}

var permissive = mads.Address{AV: ci.AVAttr{DLID: ci.LID(mad.PermissiveLID)}}

var ibOnly = validate.Needs{Links: []ci.Link{ci.LinkInfiniBand}}

var MADSMI02 = datagrams.Must("MAD-SMI-02", "IBTA 14.2.2", "mads, Agent.Do, AgentConfig.Manager",
	"A subnet management datagram along a directed route without hops is for the port itself: the agents of the port "+
		"receive it, or its adapter executes it. One whose route does not begin at the port is rejected.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.smi.own",
	Title: "requests of a manager to its own port",
	Needs: ibOnly,
	Run:   smiOwn,
}, MADSMI02)

func smiOwn(t *validate.T) {
	alone(t)
	b := newBench(t, benchSetting{})
	hasOwnAgent := t.Attr().HasHardwareAgents(b.port.Num)
	if hasOwnAgent && !t.Claims().Has(ci.CapLocalMAD) {
		t.Skip("the adapter's agent cannot be asked through the driver")
	}
	cfg := mads.AgentConfig{Name: "manager", Class: mad.ClassSubnetLID, Version: mad.ClassVersionSubnet,
		SubnetManagement: true, Manager: true, Methods: []mad.Method{mad.Get, mad.Set, mad.Trap}}
	manager := b.agent(cfg)
	plain := b.agent(mads.AgentConfig{SubnetManagement: true})
	do := func(m []byte) []byte {
		ctx, cancel := wait(t)
		defer cancel()
		r, err := plain.Do(ctx, &mads.Message{To: permissive, MAD: m, Timeout: t.Remaining() / 2})
		kit.OK(t, err, "mads.Agent.Do to the own port")
		kit.Equal(t, "port of a response of the own port", r.Port, b.port)
		kit.Equal(t, "address of a response of the own port", fmt.Sprintf("%+v", r.From),
			fmt.Sprintf("%+v", mads.Address{AV: ci.AVAttr{Port: b.port.Num, DLID: ci.LID(mad.PermissiveLID)}}))
		return r.MAD
	}
	got := do(directedMAD(mad.Get, mad.AttrNodeInfo, 0x1234567890))
	var h mad.Header
	h.Parse(got)
	kit.Equal(t, "header of the response", fmt.Sprintf("%+v", h), fmt.Sprintf("%+v", mad.Header{
		BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetDirected, ClassVersion: mad.ClassVersionSubnet,
		Method: mad.GetResp, Status: mad.StatusDirection, TID: 0x1234567890, Attribute: mad.AttrNodeInfo}))
	var info mad.NodeInfo
	info.Parse(got[64:])
	kit.Equal(t, "node GUID", info.NodeGUID, uint64(b.port.CA))
	h.Parse(do(directedMAD(mad.Get, 0xff55, 6)))
	kit.Equal(t, "status of an unknown attribute", h.Status, mad.StatusDirection|mad.StatusBadMethodAttribute)

	t.Step("%s", "what the port's agents receive")
	deliver := func(a mads.Agent, m []byte, tid uint64, where string) {
		kit.OK(t, plain.Send(&mads.Message{To: permissive, MAD: m}), "mads.Agent.Send to the own port")
		r := recv(t, a, where)
		kit.Equal(t, where+": transaction ID", r.Header().TID, tid)
		kit.Equal(t, where+": Received.Port", r.Port, b.port)
		kit.Equal(t, where+": LID", r.From.AV.DLID, ci.LID(mad.PermissiveLID))
		kit.SameBytes(t, where+": data", r.MAD[64:], m[64:])
	}
	deliver(manager, directedMAD(mad.Get, mad.AttrSMInfo, 7), 7, "Get(SMInfo) at the manager")
	deliver(manager, directedMAD(mad.Set, mad.AttrSMInfo, 8), 8, "Set(SMInfo) at the manager")
	deliver(manager, directedMAD(mad.Trap, mad.AttrNotice, 9), 9, "Trap at the manager")
	kit.OK(t, manager.Close(), "mads.Agent.Close")
	h.Parse(do(directedMAD(mad.Get, mad.AttrSMInfo, 10)))
	kit.Equal(t, "status of Get(SMInfo) without a manager", h.Status&^mad.StatusDirection, mad.StatusBadMethodAttribute)
	cfg.Manager = false
	all := b.agent(cfg)
	deliver(all, directedMAD(mad.Get, mad.AttrNodeInfo, 11), 11, "Get(NodeInfo) at an agent for all attributes")
	kit.OK(t, all.Close(), "mads.Agent.Close")
	do(directedMAD(mad.Get, mad.AttrNodeInfo, 12))

	t.Step("%s", "trap represses")
	calls := make(chan *ci.AVAttr, 8)
	var in ci.MAD
	b.set(func() {
		b.local = func(src *ci.AVAttr, m, _ *ci.MAD) error { in = *m; calls <- src; return nil }
	})
	if !hasOwnAgent {
		kit.OK(t, plain.Send(&mads.Message{To: permissive, MAD: directedMAD(mad.TrapRepress, mad.AttrNotice, 13)}),
			"mads.Agent.Send of a TrapRepress to the own port")
		kit.True(t, await(t, calls, "CA.LocalMAD of a TrapRepress") == nil, "source at CA.LocalMAD", "nil",
			"an address")
		kit.Equal(t, "transaction ID at CA.LocalMAD", binary.BigEndian.Uint64(in[8:]), 13)
		b.onQP0()
		m := subnetMAD(mad.TrapRepress, mad.AttrNotice, 14, nil)
		b.inject(0, func(w *ci.WC, slot []byte) { copy(slot[grhLen:], m); w.SLID = 0x333 })
		src := await(t, calls, "CA.LocalMAD of a TrapRepress")
		kit.True(t, src != nil && src.DLID == 0x333, "source at CA.LocalMAD", "LID 0x333", "%+v", src)
		kit.SameBytes(t, "TrapRepress at CA.LocalMAD", in[:], m)
	}
	b.set(func() { b.local = nil })

	t.Step("%s", "routes that do not begin at the port")
	pointer, other, long := directedMAD(mad.Get, mad.AttrNodeInfo, 20, b.port.Num),
		directedMAD(mad.Get, mad.AttrNodeInfo, 21, b.port.Num+1), directedMAD(mad.Get, mad.AttrNodeInfo, 22, b.port.Num)
	pointer[6], long[7] = 1, 64
	for _, m := range [][]byte{pointer, other, long} {
		where := fmt.Sprintf("mads.Agent.Send of a route that does not begin at the port, transaction %d", m[15])
		kit.WantExactly(t, plain.Send(&mads.Message{To: permissive, MAD: m}), where, ci.InvalidParameter)
		_, err := plain.Do(t.Context(), &mads.Message{To: permissive, MAD: m})
		kit.WantExactly(t, err, where, ci.InvalidParameter)
	}
	do(directedMAD(mad.Get, mad.AttrNodeInfo, 23))
}

var MADSMI03 = datagrams.Must("MAD-SMI-03", "IBTA 14.4.1", "mads, AgentConfig.Manager",
	"A request of SMInfo reaches the manager of a port, and is answered with status 0x000c where there is none, by "+
		"LID and by directed route.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.smi.info",
	Title: "SMInfo of a port with and without a manager, whoever executes the other requests",
	Needs: ibOnly,
	Run:   smiInfo,
}, MADSMI03)

func smiInfo(t *validate.T) {
	alone(t)
	const refused = mad.StatusBadMethodAttribute
	b := newBench(t, benchSetting{query: func(*ci.CAAttr) {}})
	asker := b.peer.agent(mads.AgentConfig{SubnetManagement: true})
	to := b.peer.to(b.side)
	to.QPN = 0
	num := b.peer.port.Num
	do := func(to mads.Address, m []byte) (h mad.Header, got []byte) {
		ctx, cancel := wait(t)
		defer cancel()
		r, err := asker.Do(ctx, &mads.Message{To: to, MAD: m, Timeout: t.Remaining() / 2})
		kit.OK(t, err, "mads.Agent.Do through QP0")
		return r.Header(), r.MAD
	}
	check := func(where string) {
		for _, method := range []mad.Method{mad.Get, mad.Set} {
			m := subnetMAD(method, mad.AttrSMInfo, 5, []byte("data of SMInfo"))
			h, got := do(to, m)
			kit.Equal(t, "header of SMInfo by LID, "+where, fmt.Sprintf("%+v", h), fmt.Sprintf("%+v", mad.Header{
				BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.GetResp, Status: refused,
				TID:       5,
				Attribute: mad.AttrSMInfo}))
			kit.SameBytes(t, "data of SMInfo by LID, "+where, got[64:], m[64:])
			m = directedMAD(method, mad.AttrSMInfo, 6, num)
			h, got = do(permissive, m)
			kit.Equal(t, "status and method of SMInfo by directed route, "+where, [2]uint16{h.Status, uint16(h.Method)},
				[2]uint16{refused | mad.StatusDirection, uint16(mad.GetResp)})
			kit.Equal(t, "hop pointer and count of SMInfo by directed route, "+where, [2]byte{got[6], got[7]},
				[2]byte{0, 1})
		}
	}
	check("without a manager")
	manager := b.agent(mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true, Manager: true,
		Methods: []mad.Method{mad.Get, mad.Set}})
	reaches := func(where string) {
		for i, m := range [][]byte{subnetMAD(mad.Get, mad.AttrSMInfo, 7, nil), subnetMAD(mad.Set, mad.AttrSMInfo, 8,
			nil)} {
			kit.OK(t, asker.Send(&mads.Message{To: to, MAD: m}), "mads.Agent.Send of SMInfo")
			kit.Equal(t, "transaction ID at the manager, "+where, recv(t, manager,
				"SMInfo at the manager").Header().TID,
				uint64(7+i))
		}
	}
	reaches("beside the port's agent")
	if t.Attr().HasHardwareAgents(b.port.Num) {
		return
	}
	h, _ := do(to, subnetMAD(mad.Get, mad.AttrNodeInfo, 9, nil))
	kit.Equal(t, "status of NodeInfo beside a manager", h.Status, 0)

	t.Step("%s", "an adapter that says that it answers the requests itself, and passes them up")
	lid := ci.LID(0)
	b.set(func() {
		b.query = func(a *ci.CAAttr) {
			p := &a.Ports[b.port.Num-1]
			p.HardwareAgents = true
			if lid != 0 {
				p.LID = lid
			}
		}
	})
	adapter, err := b.al.Adapter(b.port.CA)
	kit.OK(t, err, "AL.Adapter")
	adapter.Poll()
	b.until("attributes of the adapter", func() bool { return adapter.Attr().Ports[b.port.Num-1].HardwareAgents })
	reaches("beside the adapter's agent")
	events := make(chan accesslayer.PortEvent, 64)
	_, err = b.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Port: func(_ *accesslayer.Adapter, _ any, e accesslayer.PortEvent) {
			if e.Type == accesslayer.PortLID && e.Port == b.port.Num {
				events <- e
			}
		}})
	kit.OK(t, err, "Client.RegisterPnP")
	b.sent()
	kit.OK(t, asker.Send(&mads.Message{To: to, MAD: subnetMAD(mad.Get, mad.AttrNodeInfo, 10, nil)}), "mads.Agent.Send")
	b.set(func() { lid = b.ca.Port.LID ^ 0x70 })
	kit.OK(t, asker.Send(&mads.Message{To: to, MAD: subnetMAD(mad.Set, mad.AttrPortInfo, 11, nil)}), "mads.Agent.Send")
	await(t, events, "port event after a Set that the adapter has executed")
	kit.OK(t, manager.Close(), "mads.Agent.Close")
	check("of an adapter with an agent of its own")
	for _, p := range b.sent() {
		kit.Equal(t, "attribute of a response of the services", p.header().Attribute, uint16(mad.AttrSMInfo))
	}
}

var MADSMI04 = datagrams.Must("MAD-SMI-04", "IBTA 14.2.5.1", "mads",
	"Events of an adapter without an agent of its own are reported to the port's subnet manager by the traps that "+
		"IBTA has for them, with their details, from QP0, at the manager's service level.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.smi.traps",
	Title: "the trap of each event, and events without one",
	Needs: ibOnly,
	Run:   smiTraps,
}, MADSMI04)

func smiTraps(t *validate.T) {
	const sl = 3
	b := newBench(t, benchSetting{virtual: true})
	b.onQP0()
	num := b.port.Num
	sm := b.peer.agent(mads.AgentConfig{Name: "SM", Class: mad.ClassSubnetLID, Version: 1, SubnetManagement: true,
		Methods: []mad.Method{mad.Trap}})
	to := b.peer.to(b.side)
	to.QPN = 0
	var i mad.PortInfo
	set := func(method mad.Method) {
		data := make([]byte, 64)
		if method == mad.Set {
			i.State, i.PhysState = 0, 0
			i.Put(data)
		}
		ctx, cancel := wait(t)
		defer cancel()
		r, err := sm.Do(ctx, &mads.Message{To: to, MAD: subnetMAD(method, mad.AttrPortInfo, 5, data),
			Timeout: t.Remaining() / 2})
		kit.OK(t, err, "mads.Agent.Do of PortInfo")
		kit.Equal(t, "status of PortInfo", r.Header().Status, 0)
		i.Parse(r.MAD[64:])
	}
	set(mad.Get)
	master, masterSL, timeout := i.MasterSMLID, i.MasterSMSL, i.SubnetTimeout
	i.MasterSMLID, i.MasterSMSL, i.SubnetTimeout = uint16(b.peer.ca.Port.LID), sl, 18
	set(mad.Set)
	b.settle(0)
	b.sent()
	lid := b.ca.Port.LID
	attr, err := b.ca.CA.Query()
	kit.OK(t, err, "CA.Query")
	violation := &ci.KeyViolation{SLID: 0x11, DLID: 0x22, SL: 5, Key: 0x8777, SrcQP: 0x1234, DestQP: 0x5678,
		SGID: gidOf([]byte{1}, 2), DGID: gidOf([]byte{3}, 4)}
	type layout interface{ Put(b []byte) }
	key := func(key uint32) *mad.TrapKey {
		return &mad.TrapKey{LID1: 0x11, LID2: 0x22, Key: key, SL: 5, QP1: 0x1234, QP2: 0x5678, GID1: violation.SGID,
			GID2: violation.DGID}
	}
	port := &mad.TrapPort{LID: uint16(lid), Port: num}
	system := &mad.TrapSystemGUID{LID: uint16(lid), GUID: uint64(attr.SystemGUID)}
	var tids []uint64
	for _, v := range kit.Variants(t, "", []struct {
		name    string
		e       ci.Event
		typ     uint8
		trap    uint16 // 0: the event has no trap
		details layout
	}{
		{"link integrity", ci.Event{Type: ci.EventLinkIntegrity, Port: num}, mad.NoticeUrgent, mad.TrapLinkIntegrity,
			port},
		{"link integrity of another port", ci.Event{Type: ci.EventLinkIntegrity, Port: num + 1}, 0, 0, nil},
		{"link integrity of no port", ci.Event{Type: ci.EventLinkIntegrity}, 0, 0, nil},
		{"buffer overrun", ci.Event{Type: ci.EventBufferOverrun, Port: num}, mad.NoticeUrgent, mad.TrapBufferOverrun,
			port},
		{"flow control", ci.Event{Type: ci.EventFlowControlError, Port: num}, mad.NoticeUrgent, mad.TrapFlowControl,
			port},
		{"capability mask", ci.Event{Type: ci.EventPortTrap, Port: num}, mad.NoticeInfo, mad.TrapCapabilityMask,
			&mad.TrapCapability{LID: uint16(lid), CapabilityMask: uint32(attr.Ports[num-1].Capability)}},
		{"system GUID", ci.Event{Type: ci.EventSystemGUIDTrap}, mad.NoticeInfo, mad.TrapSystemGUIDChanged, system},
		{"system GUID, with a port", ci.Event{Type: ci.EventSystemGUIDTrap, Port: num}, mad.NoticeInfo,
			mad.TrapSystemGUIDChanged, system},
		{"system GUID, with another port", ci.Event{Type: ci.EventSystemGUIDTrap, Port: num + 1}, 0, 0, nil},
		{"P_Key", ci.Event{Type: ci.EventPKeyTrap, Port: num, Violation: violation}, mad.NoticeSecurity,
			mad.TrapBadPKey,
			key(0x8777)},
		{"Q_Key", ci.Event{Type: ci.EventQKeyTrap, Port: num, Violation: violation}, mad.NoticeSecurity,
			mad.TrapBadQKey,
			key(0x8777)},
		{"P_Key without details", ci.Event{Type: ci.EventPKeyTrap, Port: num}, 0, 0, nil},
		{"M_Key", ci.Event{Type: ci.EventMKeyTrap, Port: num}, 0, 0, nil},
		{"LID", ci.Event{Type: ci.EventLIDChange, Port: num}, 0, 0, nil},
		{"flow control again", ci.Event{Type: ci.EventFlowControlError, Port: num}, mad.NoticeUrgent,
			mad.TrapFlowControl,
			port},
	}) {
		b.event(v.e)
		if v.trap == 0 {
			continue // the next trap is that of a later event
		}
		r := arrival(t, sm, "trap at the manager")
		h := r.Header()
		var n mad.Notice
		n.Parse(r.MAD[64:])
		want := mad.Notice{Generic: true, Type: v.typ, Producer: mad.ProducerCA, Trap: v.trap, IssuerLID: uint16(lid)}
		v.details.Put(want.Details[:])
		kit.Equal(t, "notice of the trap", n, want)
		for _, tid := range tids {
			kit.True(t, tid != h.TID, "transaction ID of the trap", "a new one", "%#x again", tid)
		}
		tids = append(tids, h.TID)
		list := b.sent()
		kit.True(t, len(list) == 1 && list[0].qp == ci.QP0, "datagrams of the trap", "one from QP0", "%s",
			describeSent(list))
		kit.Equal(t, "LID and service level of the trap", [2]uint16{uint16(list[0].av.DLID), uint16(list[0].av.SL)},
			[2]uint16{uint16(b.peer.ca.Port.LID), sl})
		repress := subnetMAD(mad.TrapRepress, mad.AttrNotice, h.TID, r.MAD[64:128])
		kit.OK(t, sm.Send(&mads.Message{To: to, MAD: repress}), "mads.Agent.Send of a TrapRepress")
		b.settle(0)
	}
	i.MasterSMLID, i.MasterSMSL, i.SubnetTimeout = master, masterSL, timeout
	set(mad.Set)
}

// alone skips the case on a link with a subnet manager of its own, which sends requests to the port meanwhile and reads
// and acknowledges its notices.
func alone(t *validate.T) {
	if t.Link() == "fabric" {
		t.Skip("the subnet manager of the fabric manages the port meanwhile")
	}
}
