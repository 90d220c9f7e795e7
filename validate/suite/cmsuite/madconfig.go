package cmsuite

import (
	"fmt"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Which agents and messages are valid.

var MADConfig01 = datagrams.Must("MAD-Config-01", "CI access layer", "mads, AgentConfig, Service.Register",
	"Register accepts each valid combination of class, version, OUI, methods and RMPP. It rejects others with "+
		"InvalidParameter, ports without services with InvalidPort, QP0 of an Ethernet port with Unsupported, and "+
		"methods that another agent has with ResourceBusy. A call that fails has no effect.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.register.configs",
	Title: "agents with each valid configuration at its limits, and with others",
	Run:   registerConfigs,
}, MADConfig01)

func registerConfigs(t *validate.T) {
	a, _ := sides(t)
	isIB := a.ca.Port.Link == ci.LinkInfiniBand
	oui := [3]byte{0, 0, 1}
	get := []mad.Method{mad.Get}
	ignore := func(*mads.Received) {}
	register := func(c mads.AgentConfig) (mads.Agent, error) {
		c.Name = "certifier"
		if c.Port == (mads.Port{}) {
			c.Port = a.port
		}
		return a.mads.Register(c)
	}
	const invalid = ci.InvalidParameter
	type variant struct {
		name string
		c    mads.AgentConfig
		want ci.Status // 0: success
	}
	variants := []variant{
		{"no class", mads.AgentConfig{}, 0},
		{"class 1 without SubnetManagement", mads.AgentConfig{Class: mad.ClassSubnetLID, Methods: get}, invalid},
		{"class 0x81 without SubnetManagement", mads.AgentConfig{Class: mad.ClassSubnetDirected}, invalid},
		{"class 9 with SubnetManagement", mads.AgentConfig{Class: vendorClass, SubnetManagement: true}, invalid},
		{"class 2", mads.AgentConfig{Class: 2, Methods: get}, 0},
		{"the last class", mads.AgentConfig{Class: mad.ClassVendor2Last, OUI: oui, Methods: get}, 0},
		{"a class beyond the last", mads.AgentConfig{Class: mad.ClassVendor2Last + 1, Methods: get}, invalid},
		{"class 0x80", mads.AgentConfig{Class: 0x80}, invalid},
		{"class 0x82", mads.AgentConfig{Class: 0x82}, invalid},
		{"class 0xff", mads.AgentConfig{Class: 0xff, SubnetManagement: true}, invalid},
		{"version 7", mads.AgentConfig{Class: vendorClass, Version: 7, Methods: get}, 0},
		{"version 8", mads.AgentConfig{Class: vendorClass, Version: 8, Methods: get}, invalid},
		{"a queue of one", mads.AgentConfig{Class: vendorClass, Queue: 1, Methods: get}, 0},
		{"a negative queue", mads.AgentConfig{Class: vendorClass, Queue: -1, Methods: get}, invalid},
		{"methods without a class", mads.AgentConfig{Methods: get}, invalid},
		{"RMPP without a class", mads.AgentConfig{RMPP: true}, invalid},
		{"RMPP in vendor range 1", mads.AgentConfig{Class: vendorClass, RMPP: true}, invalid},
		{"vendor range 2 without an OUI", mads.AgentConfig{Class: mad.ClassVendor2First, Methods: get}, invalid},
		{"vendor range 2 without an OUI and methods", mads.AgentConfig{Class: mad.ClassVendor2First}, 0},
		{"vendor range 2", mads.AgentConfig{Class: mad.ClassVendor2First, OUI: [3]byte{1}, Methods: get}, 0},
		{"vendor range 2 with another byte of the OUI", mads.AgentConfig{Class: mad.ClassVendor2First,
			OUI: [3]byte{0, 1}, Methods: get}, 0},
		{"vendor range 1 with an OUI", mads.AgentConfig{Class: vendorClass, OUI: oui, Methods: get}, invalid},
		{"a class below vendor range 2 with an OUI", mads.AgentConfig{Class: mad.ClassVendor2First - 1, OUI: oui},
			invalid},
		{"Manager without SubnetManagement", mads.AgentConfig{Class: vendorClass, Manager: true, Methods: get},
			invalid},
		{"OnReceive without methods", mads.AgentConfig{Class: vendorClass, OnReceive: ignore}, invalid},
		{"OnReceive", mads.AgentConfig{Class: vendorClass, Methods: get, OnReceive: ignore}, 0},
		{"a port with another number", mads.AgentConfig{Port: mads.Port{CA: a.port.CA, Num: 254}}, ci.InvalidPort},
		{"port 0", mads.AgentConfig{Port: mads.Port{CA: a.port.CA}}, ci.InvalidPort},
		{"a port of another HCA", mads.AgentConfig{Port: mads.Port{CA: a.port.CA ^ 1<<40, Num: a.port.Num}},
			ci.InvalidPort},
	}
	for _, c := range []mad.Class{mad.ClassSubnetAdmin, mad.ClassDevice, mad.ClassDeviceAdmin, mad.ClassBIS} {
		variants = append(variants, variant{fmt.Sprintf("RMPP in class %v", c), mads.AgentConfig{Class: c, RMPP: true},
			0})
	}
	for _, m := range []mad.Method{1, 6, 8, 0x7f} {
		variants = append(variants, variant{fmt.Sprintf("method %#x", uint8(m)),
			mads.AgentConfig{Class: vendorClass, Methods: []mad.Method{m}}, 0})
	}
	for _, m := range []mad.Method{0, mad.TrapRepress, 0x80, mad.GetResp, 0xff} {
		variants = append(variants, variant{fmt.Sprintf("method %#x", uint8(m)),
			mads.AgentConfig{Class: vendorClass, Methods: []mad.Method{mad.Get, m}}, invalid})
	}
	subnet := mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 7, Methods: get, SubnetManagement: true}
	switch {
	case !isIB:
		variants = append(variants, variant{"QP0 of an Ethernet port", subnet, ci.Unsupported})
	case isIB:
		directed := subnet
		directed.Class = mad.ClassSubnetDirected
		variants = append(variants, variant{"class 1", subnet, 0}, variant{"class 0x81", directed, 0},
			variant{"QP0 without a class", mads.AgentConfig{SubnetManagement: true}, 0})
	}
	_, isHost := a.hca.(Host)
	for _, v := range kit.Variants(t, "", variants) {
		if v.c.Manager && isHost { // clients of a daemon have no such agents
			continue
		}
		for range 2 { // the first agent is closed, and a call that failed has no effect
			g, err := register(v.c)
			if v.want != 0 {
				kit.WantExactly(t, err, "mads.Service.Register, "+v.name, v.want)
				kit.True(t, g == nil, "agent beside the error", "none", "an agent")
				continue
			}
			kit.OK(t, err, "mads.Service.Register, "+v.name)
			if len(v.c.Methods) > 0 {
				_, err = register(v.c)
				kit.WantExactly(t, err, "second mads.Service.Register, "+v.name, ci.ResourceBusy)
			}
			kit.Equal(t, "Agent.Port", g.Port(), a.port)
			kit.OK(t, g.Close(), "mads.Agent.Close")
		}
	}
	if isIB { // both classes of subnet management have the same agents
		g, err := register(subnet)
		kit.OK(t, err, "mads.Service.Register of class 1")
		subnet.Class = mad.ClassSubnetDirected
		_, err = register(subnet)
		kit.WantExactly(t, err, "mads.Service.Register of class 0x81, whose method an agent of class 1 has",
			ci.ResourceBusy)
		kit.OK(t, g.Close(), "mads.Agent.Close")
	}
	one, err := register(vendor(mad.Get, mad.Set))
	kit.OK(t, err, "mads.Service.Register")
	_, err = register(vendor(mad.Send, mad.Set)) // Send is free afterwards
	kit.WantExactly(t, err, "mads.Service.Register with one method that another agent has", ci.ResourceBusy)
	two, err := register(vendor(mad.Send))
	kit.OK(t, err, "mads.Service.Register of a method that a call which failed had asked for")
	kit.OK(t, one.Close(), "mads.Agent.Close")
	kit.OK(t, two.Close(), "mads.Agent.Close")
}

var MADConfig02 = datagrams.Must("MAD-Config-02", "CI access layer", "mads, Agent.Send, Do, StartDo, Message.MAD",
	"A message with a length, version or class that the agent cannot send is rejected with InvalidParameter, and "+
		"nothing is sent. Messages of the smallest and the largest length are sent.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.message.invalid",
	Title: "messages of each agent at the limits, and others",
	Run:   messageInvalid,
}, MADConfig02)

func messageInvalid(t *validate.T) {
	a, b := sides(t)
	classless := a.agent(mads.AgentConfig{Name: "without a class"})
	own := a.agent(vendor())
	sa := mads.AgentConfig{Name: "SA", Class: mad.ClassSubnetAdmin, Version: mad.ClassVersionSubnetAdmin}
	plain := a.agent(sa)
	sa.RMPP = true
	long := a.agent(sa)
	sa.RMPP, sa.Methods = false, []mad.Method{mad.Send, mad.GetTable}
	peer, other := b.agent(vendor(mad.Send)), b.agent(sa)
	message := func(class mad.Class, n int, change func(m []byte)) []byte {
		m := make([]byte, max(n, mad.HeaderLen))
		(&mad.Header{BaseVersion: mad.BaseVersion, Class: class, ClassVersion: vendorVersion, Method: mad.Send,
			Attribute: vendorAttr}).Put(m)
		if class == mad.ClassSubnetAdmin {
			m[2] = mad.ClassVersionSubnetAdmin
		}
		if change != nil {
			change(m)
		}
		return m[:n]
	}
	active := func(m []byte) { m[mad.HeaderLen+2] = byte(mad.RMPPActive) }
	noise := func(m []byte) { // not active: the rest is to be ignored
		copy(m[mad.HeaderLen:], []byte{9, 9, 0xfe, 9, 9, 9, 9, 9, 9, 9, 9, 9})
	}
	const vc, sc = vendorClass, mad.ClassSubnetAdmin
	for i, v := range kit.Variants(t, "", []struct {
		name    string
		agent   mads.Agent
		mad     []byte
		to      mads.Agent // who receives it; nil: it is rejected
		isLong  bool       // it arrives as the first segment of a transfer
		isPlain bool       // it arrives unchanged
	}{
		{name: "no bytes", agent: own},
		{name: "23 bytes", agent: classless, mad: message(vc, 23, nil)},
		{name: "24 bytes", agent: classless, mad: message(vc, 24, nil)},
		{name: "255 bytes", agent: own, mad: message(vc, 255, nil)},
		{name: "257 bytes", agent: own, mad: message(vc, 257, nil)},
		{name: "base version 0", agent: own, mad: message(vc, 256, func(m []byte) { m[0] = 0 })},
		{name: "base version 2", agent: own, mad: message(vc, 256, func(m []byte) { m[0] = 2 })},
		{name: "another class than the agent's", agent: own, mad: message(vc+1, 256, nil)},
		{name: "class 1 on QP1", agent: classless, mad: message(mad.ClassSubnetLID, 256, nil)},
		{name: "class 0x81 on QP1", agent: classless, mad: message(mad.ClassSubnetDirected, 256, nil)},
		{name: "a datagram", agent: own, mad: message(vc, 256, nil), to: peer, isPlain: true},
		{name: "a datagram of an agent without a class", agent: classless, mad: message(vc, 256, nil), to: peer,
			isPlain: true},
		{name: "300 bytes without RMPP", agent: plain, mad: message(sc, 300, nil)},
		{name: "56 bytes without RMPP", agent: plain, mad: message(sc, mad.SAHeaderLen, nil)},
		{name: "an active datagram without RMPP", agent: plain, mad: message(sc, 256, active), to: other,
			isPlain: true},
		{name: "55 bytes with RMPP", agent: long, mad: message(sc, mad.SAHeaderLen-1, nil)},
		{name: "56 bytes with RMPP", agent: long, mad: message(sc, mad.SAHeaderLen, nil), to: other, isLong: true},
		{name: "57 bytes with RMPP", agent: long, mad: message(sc, mad.SAHeaderLen+1, nil), to: other, isLong: true},
		{name: "a datagram with RMPP", agent: long, mad: message(sc, 256, nil), to: other, isPlain: true},
		{name: "a datagram with RMPP that is not active", agent: long, mad: message(sc, 256, noise), to: other,
			isPlain: true},
		{name: "an active datagram with RMPP", agent: long, mad: message(sc, 256, active), to: other, isLong: true},
		{name: "257 bytes with RMPP", agent: long, mad: message(sc, 257, nil), to: other, isLong: true},
	}) {
		if len(v.mad) >= mad.HeaderLen { // two transfers to a peer have different transaction IDs
			v.mad[15] = byte(i)
		}
		m := &mads.Message{To: a.to(b), MAD: v.mad, Timeout: t.Remaining()}
		if v.to == nil {
			kit.WantExactly(t, v.agent.Send(m), "mads.Agent.Send of "+v.name, ci.InvalidParameter)
			_, err := v.agent.Do(t.Context(), m)
			kit.WantExactly(t, err, "mads.Agent.Do of "+v.name, ci.InvalidParameter)
			err = v.agent.StartDo(t.Context(), m, func(*mads.Received, error) {
				t.Report(validate.Failure{Where: "mads.Agent.StartDo of " + v.name, Expected: "no call of the function",
					Got: "a call"})
			})
			kit.WantExactly(t, err, "mads.Agent.StartDo of "+v.name, ci.InvalidParameter)
			continue
		}
		kit.OK(t, v.agent.Send(m), "mads.Agent.Send of "+v.name)
		r := recv(t, v.to, "datagram of "+v.name)
		if v.isPlain {
			kit.SameBytes(t, "datagram of "+v.name, r.MAD, v.mad)
			continue
		}
		var p mad.RMPP
		p.Parse(r.MAD[mad.HeaderLen:])
		kit.Equal(t, "type and segment of "+v.name, [2]uint32{uint32(p.Type), p.Segment()},
			[2]uint32{uint32(mad.RMPPData), 1})
		kit.True(t, p.Active() && p.Flags&mad.RMPPFirst != 0, "flags of "+v.name, "Active and First", "%v", p.Flags)
	}
	kit.WantExactly(t, own.Send(nil), "mads.Agent.Send of no message", ci.InvalidParameter)
	none(t, peer, "peer after messages that are not valid")
}
