package smasuite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The kit's agent over drivers whose CA.LocalMAD executes less than it needs, or fails.
var drivers = linkArea()

const driverVerb = "ci_local_mad (65); QP0"

// An execution takes the place of CA.LocalMAD; next is the driver's.
type execution func(src *ci.AVAttr, in, out *ci.MAD, next func() error) error

// A script is what a case changes of the driver. The zero value changes nothing.
type script struct {
	query func(a *ci.CAAttr) // changes a copy of the attributes

	mu    sync.Mutex
	local execution // or nil
}

// execute sets what takes the place of CA.LocalMAD.
func (s *script) execute(f execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.local = f
}

// scriptedCA is a CA with a script.
type scriptedCA struct {
	ciwrap.CA
	s *script
}

func (c scriptedCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err != nil || c.s.query == nil {
		return a, err
	}
	b := *a
	b.Ports = append([]ci.PortAttr(nil), a.Ports...)
	c.s.query(&b)
	return &b, nil
}

func (c scriptedCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	c.s.mu.Lock()
	f := c.s.local
	c.s.mu.Unlock()
	next := func() error { return c.CA.LocalMAD(port, src, in, out) }
	if f == nil || in == nil || out == nil {
		return next()
	}
	return f(src, in, out, next)
}

const description = "certifier's description"

// scripted starts the kit on a driver with a script.
func scripted(t *validate.T, s *script) *linked {
	alone(t)
	if t.Attr().HasHardwareAgents(1) {
		t.Skip("the adapter has agents of its own, and the kit none")
	}
	h := ciwrap.Wrap(t.HCA(), ciwrap.Layer{CA: func(c ci.CA) ci.CA { return scriptedCA{ciwrap.CA{CA: c}, s} }})
	return linkOver(t, h, mads.Config{NodeDescription: description})
}

// hasNone is an execution without attributes.
func hasNone(_ *ci.AVAttr, in, out *ci.MAD, _ func() error) error {
	respond(in, out, mad.StatusBadMethodAttribute)
	return nil
}

// respond makes out a response with the data of the request.
func respond(in, out *ci.MAD, status uint16) {
	*out = *in
	out[3] = uint8(mad.GetResp)
	binary.BigEndian.PutUint16(out[4:], status)
}

// shown returns an execution of the driver whose PortInfo is changed in responses.
func shown(change func(i *mad.PortInfo)) execution {
	return func(_ *ci.AVAttr, in, out *ci.MAD, next func() error) error {
		err := next()
		if binary.BigEndian.Uint16(out[16:]) == mad.AttrPortInfo && out[3] == uint8(mad.GetResp) {
			var i mad.PortInfo
			i.Parse(out[64:])
			change(&i)
			i.Put(out[64:])
		}
		return err
	}
}

var smaDriver01 = drivers.Must("SMA-Driver-01", "SAS 2.1", driverVerb,
	"A Get of NodeDescription, NodeInfo, PortInfo, GUIDInfo or P_KeyTable that the driver does not execute is "+
		"answered from CA.Query. Sets and other attributes have status 0x000c.")

var _ = drivers.Add("sma.driver.attributes", "a driver that executes no attribute", func(t *validate.T) {
	s := &script{query: func(a *ci.CAAttr) { unlike(a, 17, 65) }, local: hasNone}
	fromAttributes(scripted(t, s))
}, smaDriver01)

var _ = drivers.Add("sma.driver.without", "a driver without CA.LocalMAD, and without a system image GUID",
	func(t *validate.T) {
		s := &script{query: func(a *ci.CAAttr) {
			unlike(a, 304, 64)
			a.Caps &^= ci.CapLocalMAD
			a.SystemGUID = 0
		}, local: func(*ci.AVAttr, *ci.MAD, *ci.MAD, func() error) error { return errors.New("not claimed") }}
		fromAttributes(scripted(t, s))
	}, smaDriver01)

// unlike changes attributes of the ports so that no two are alike, and makes tables longer than a block of them.
func unlike(a *ci.CAAttr, numGIDs, numPKeys int) {
	for i := range a.Ports {
		p := &a.Ports[i]
		p.SMSL, p.SubnetTimeout, p.InitTypeReply = 5, 17, 6
		p.WidthActive, p.SpeedActive, p.SpeedExt = 8, 4, 2
		p.PKeyErrors, p.QKeyErrors = 0x1234, 0x5678
		p.GIDs, p.PKeys = append([]ci.GIDEntry(nil), p.GIDs...), append([]ci.PKey(nil), p.PKeys...)
		for k := len(p.GIDs); k < numGIDs; k++ {
			p.GIDs = append(p.GIDs, ci.GIDEntry{GID: mad.GID(binary.BigEndian.Uint64(p.GIDs[0].GID[:]),
				0x0200000000000000+uint64(k))})
		}
		for k := len(p.PKeys); k < numPKeys; k++ {
			p.PKeys = append(p.PKeys, ci.PKey(0x100+k))
		}
	}
}

// fromAttributes checks that requests are answered from CA.Query.
func fromAttributes(l *linked) {
	t := l.t
	a, err := l.ca.Query()
	kit.OK(t, err, "CA.Query")
	num := l.ca.Port.Num
	p := &a.Ports[num-1]
	var text [mad.SMPDataLen]byte
	copy(text[:], description)
	r := l.do(l.smp(mad.Get, mad.AttrNodeDescription, 0), mad.StatusOK)
	kit.SameBytes(t, "NodeDescription", r.Data[:], text[:])
	wantNode := mad.NodeInfo{BaseVersion: mad.BaseVersion, ClassVersion: mad.ClassVersionSubnet, Type: mad.NodeCA,
		NumPorts: uint8(len(a.Ports)), SystemGUID: uint64(a.SystemGUID), NodeGUID: uint64(a.GUID),
		PortGUID: uint64(p.GUID), PartitionCap: uint16(len(p.PKeys)), DeviceID: a.DeviceID,
		Revision: uint32(a.Revision), LocalPort: num, VendorID: a.VendorID}
	if a.SystemGUID == 0 {
		wantNode.SystemGUID = uint64(a.GUID)
	}
	var node mad.NodeInfo
	l.get(mad.AttrNodeInfo, 0, &node)
	kit.Equal(t, "NodeInfo", node, wantNode)
	want := mad.PortInfo{GIDPrefix: binary.BigEndian.Uint64(p.GIDs[0].GID[:]), LID: uint16(p.LID),
		MasterSMLID: uint16(p.SMLID), CapabilityMask: uint32(p.Capability), LocalPortNum: num, State: uint8(p.State),
		PhysState: p.PhysState, LMC: p.LMC, NeighborMTU: uint8(p.MTU), MTUCap: uint8(p.MaxMTU), MasterSMSL: p.SMSL,
		VLCap: p.MaxVLs, WidthActive: p.WidthActive, SpeedActive: p.SpeedActive, SpeedExtActive: p.SpeedExt,
		SubnetTimeout: uint8(p.SubnetTimeout), InitTypeReply: uint8(p.InitTypeReply),
		GUIDCap:        uint8(min(len(p.GIDs), 255)),
		PKeyViolations: p.PKeyErrors, QKeyViolations: p.QKeyErrors}
	kit.Equal(t, "PortInfo", fmt.Sprintf("%+v", l.info()), fmt.Sprintf("%+v", want))
	var info mad.PortInfo
	l.get(mad.AttrPortInfo, uint32(num), &info)
	kit.Equal(t, "PortInfo with the port in the modifier", fmt.Sprintf("%+v", info), fmt.Sprintf("%+v", want))
	l.do(l.smp(mad.Get, mad.AttrPortInfo, uint32(len(a.Ports))+1), mad.StatusBadField)
	guids, keys := (len(p.GIDs)+7)/8, (len(p.PKeys)+31)/32
	for b := range guids {
		var got, block mad.GUIDBlock
		for i, g := range p.GIDs[8*b : min(8*b+8, len(p.GIDs))] {
			block[i] = binary.BigEndian.Uint64(g.GID[8:])
		}
		l.get(mad.AttrGUIDInfo, uint32(b), &got)
		kit.Equal(t, fmt.Sprintf("block %d of GUIDInfo", b), got, block)
	}
	for b := range keys {
		var got, block mad.PKeyBlock
		for i, k := range p.PKeys[32*b : min(32*b+32, len(p.PKeys))] {
			block[i] = uint16(k)
		}
		l.get(mad.AttrPKeyTable, uint32(b), &got)
		kit.Equal(t, fmt.Sprintf("block %d of P_KeyTable", b), got, block)
	}
	l.do(l.smp(mad.Get, mad.AttrGUIDInfo, uint32(guids)), mad.StatusBadField)
	l.do(l.smp(mad.Get, mad.AttrGUIDInfo, 0xffffffff), mad.StatusBadField)
	l.do(l.smp(mad.Get, mad.AttrPKeyTable, uint32(keys)), mad.StatusBadField)
	l.do(l.smp(mad.Get, mad.AttrPKeyTable, 0xffffffff), mad.StatusBadField)
	l.do(l.smp(mad.Get, mad.AttrVLArbitration, 1<<16), mad.StatusBadMethodAttribute)
	for _, attr := range []uint16{mad.AttrPortInfo, mad.AttrGUIDInfo, mad.AttrPKeyTable} {
		l.do(l.smp(mad.Set, attr, 0), mad.StatusBadMethodAttribute)
	}
}

var _ = drivers.Add("sma.driver.unanswered", "a driver that fails, and one that answers nothing", func(t *validate.T) {
	s := &script{local: func(_ *ci.AVAttr, in, out *ci.MAD, next func() error) error {
		switch binary.BigEndian.Uint16(in[16:]) {
		case mad.AttrNodeDescription:
			respond(in, out, mad.StatusOK)
			return errors.New("the driver fails")
		case mad.AttrGUIDInfo:
			*out = ci.MAD{}
			return nil
		}
		return next()
	}}
	l := scripted(t, s)
	for _, attr := range []uint16{mad.AttrNodeDescription, mad.AttrGUIDInfo} {
		q := l.smp(mad.Get, attr, 0)
		l.unanswered(q, name(q)+", which the driver does not answer")
	}
	s.execute(nil)
	for _, attr := range readable {
		l.do(l.smp(mad.Get, attr, 0), mad.StatusOK)
	}
}, drivers.Must("SMA-Driver-02", "SAS 2.1", driverVerb,
	"A request that the driver does not answer, or in which it fails, has no response."))

var _ = drivers.Add("sma.driver.source",
	"the address at CA.LocalMAD, of requests from the link and from the port itself", func(t *validate.T) {
		sources := make(chan *ci.AVAttr, 1000)
		s := &script{}
		l := scripted(t, s)
		s.execute(func(src *ci.AVAttr, in, _ *ci.MAD, next func() error) error {
			if binary.BigEndian.Uint32(in[20:]) == 0x5555 {
				sources <- src
			}
			return next()
		})
		l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0x5555), mad.StatusOK)
		src := <-sources
		kit.True(t, src != nil, "address at CA.LocalMAD of a request from the link", "an address", "nil")
		kit.Equal(t, "port and LID at CA.LocalMAD", [2]uint32{uint32(src.Port), uint32(src.DLID)},
			[2]uint32{uint32(l.ca.Port.Num), uint32(l.peer.ca.Port.LID)})
		for _, attr := range []uint16{mad.AttrVendorDiag, 0xff00, 0xffff} {
			q := l.smp(mad.Get, attr, 0x5555)
			l.try(q) // the driver chooses the response
			select {
			case src := <-sources:
				kit.True(t, src != nil, "address at CA.LocalMAD of "+name(q), "an address", "nil")
			default:
				t.Failf(name(q)+" at CA.LocalMAD, an attribute that adapters may have", "the request", "none")
			}
		}
		a, err := l.mads.Register(mads.AgentConfig{Name: "own", Port: mads.Port{CA: l.ca.Attr.GUID, Num: l.ca.Port.Num},
			SubnetManagement: true})
		kit.OK(t, err, "mads.Manager.Register")
		t.Cleanup(func() { _ = a.Close() })
		q := l.outgoing()
		q.Modifier = 0x5555
		q.SetHops(0, 0)
		_, err = a.Do(t.Context(), outgoingMessage(q, permissive))
		kit.OK(t, err, "mads.Agent.Do to the own port")
		kit.True(t, <-sources == nil, "address at CA.LocalMAD of a request of the port itself", "nil", "an address")
	}, drivers.Must("SMA-Driver-03", "SAS 2.1", driverVerb,
		"CA.LocalMAD receives the port and the LID that a request came from, and no address with one of the port "+
			"itself."))

var _ = drivers.Add("sma.driver.key", "a driver whose port has an M_Key", func(t *validate.T) {
	const otherKey = 0x5566778811223344
	s := &script{}
	l := scripted(t, s)
	show := func(k uint64, level uint8) {
		s.execute(shown(func(i *mad.PortInfo) { i.MKey, i.MKeyProtect, i.MKeyLease = k, level, 0 }))
	}
	protected := func(when string, want bool) {
		q := l.smp(mad.Set, mad.AttrNodeInfo, 0)
		q.MKey = wrongKey
		_, answered := l.try(q)
		kit.Equal(t, "response to a Set with a wrong M_Key "+when, answered, !want)
		l.do(l.smp(mad.Set, mad.AttrNodeInfo, 0), mad.StatusBadMethodAttribute)
	}
	protected("before the M_Key has been read", false)
	show(key, 2)
	l.info()
	l.key = key
	protected("that the driver shows", true)
	kit.Equal(t, "M_Key in PortInfo", l.info().MKey, key)
	show(0, 2)
	l.info()
	protected("that the driver hides", true)
	show(key, 1)
	l.info()
	show(otherKey, 1)
	q := l.smp(mad.Get, mad.AttrPortInfo, 0)
	q.MKey = wrongKey
	r := l.do(q, mad.StatusOK)
	var i mad.PortInfo
	i.Parse(r.Data[:])
	kit.Equal(t, "M_Key in PortInfo, shown to others", i.MKey, 0)
	protected("after a Get of PortInfo by others", true)
	l.info()
	l.key = otherKey
	protected("that the driver has changed", true)
	show(0, 0)
	l.info()
	protected("that the driver has removed", false)
	t.Step("an M_Key by a Set")
	s.execute(nil)
	l.protect(1)
	show(otherKey, 0)
	kit.Equal(t, "M_Key and M_KeyProtectBits after a Set, when the driver shows others",
		fmt.Sprint(l.info().MKey, l.info().MKeyProtect), fmt.Sprint(uint64(key), 1))
	protected("that a Set has given to the port", true)
	t.Step("another port")
	other := uint32(len(l.ca.Attr.Ports)) + 1
	want := mad.PortInfo{MKey: otherKey, MKeyProtect: 2, MKeyViolations: 77, LocalPortNum: l.ca.Port.Num}
	s.execute(func(_ *ci.AVAttr, in, out *ci.MAD, next func() error) error {
		if binary.BigEndian.Uint32(in[20:]) != other {
			return next()
		}
		respond(in, out, mad.StatusOK)
		want.Put(out[64:])
		return nil
	})
	l.get(mad.AttrPortInfo, other, &i)
	kit.Equal(t, "PortInfo of another port", fmt.Sprintf("%+v", i), fmt.Sprintf("%+v", want))
	protected("after PortInfo of another port", true)
}, drivers.Must("SMA-Driver-04", "IBTA 14.2.4", driverVerb,
	"The kit protects a port with the M_Key that the driver shows its owner, until a Set through the kit gives "+
		"it another one."))

var _ = drivers.Add("sma.driver.violations",
	"violations that the driver has counted, and violations that it has not seen", driverViolations,
	drivers.Must("SMA-Driver-05", "IBTA 14.2.5.6", driverVerb,
		"MKeyViolations of the response is what the driver has counted and what the kit has counted, at most 65,535."))

func driverViolations(t *validate.T) {
	s := &script{}
	l := scripted(t, s)
	l.protect(1)
	for n := range uint16(4) {
		for _, v := range []struct{ driver, want uint16 }{{0, n}, {5, 5 + n}, {0xfffc, 0xfffc + n},
			{0xfffe, max(0xfffe, 0xfffe+min(n, 1))}, {0xffff, 0xffff}} {
			s.execute(shown(func(i *mad.PortInfo) { i.MKeyViolations = v.driver }))
			kit.Equal(t, fmt.Sprintf("MKeyViolations of %d, and %d at the kit", v.driver, n), l.info().MKeyViolations,
				v.want)
		}
		l.violate(l.smp(mad.Set, mad.AttrPKeyTable, 0))
		l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK)
	}
}

var _ = drivers.Add("sma.driver.key-attributes", "a driver that executes Sets of PortInfo, and no Gets",
	driverKeyAttributes, smaDriver01)

func driverKeyAttributes(t *validate.T) {
	s := &script{local: func(src *ci.AVAttr, in, out *ci.MAD, next func() error) error {
		if mad.Method(in[3]) == mad.Set {
			return next()
		}
		return hasNone(src, in, out, next)
	}}
	l := scripted(t, s)
	for _, level := range []uint8{0, 1} {
		i := l.settable()
		i.NeighborMTU, i.OperationalVLs = max(i.NeighborMTU, 1), 0
		i.MKey, i.MKeyProtect, i.MKeyLease = key, level, 0
		i.MKeyViolations = 0
		l.set(i, mad.StatusOK)
		l.key = key
		for range 2 {
			l.violate(l.smp(mad.Set, mad.AttrPKeyTable, 0))
		}
		q := l.smp(mad.Get, mad.AttrPortInfo, 0)
		for _, k := range []uint64{key, wrongKey} {
			q.MKey = k
			var i mad.PortInfo
			r := l.do(q, mad.StatusOK)
			i.Parse(r.Data[:])
			want := [4]uint64{key, uint64(level), 0, 2}
			if k == wrongKey && level == 1 {
				want[0] = 0
			}
			kit.Equal(t, fmt.Sprintf("M_Key, protection, lease and violations at level %d, for M_Key %#x", level, k),
				[4]uint64{i.MKey, uint64(i.MKeyProtect), uint64(i.MKeyLease), uint64(i.MKeyViolations)}, want)
			l.tid++
			q.TID = l.tid
		}
	}
}

var _ = drivers.Add("sma.driver.lease",
	"a lease of one second that runs out at the kit, and not at the driver", func(t *validate.T) {
		s := &script{}
		l := scripted(t, s)
		s.execute(func(_ *ci.AVAttr, in, _ *ci.MAD, next func() error) error {
			if q := *in; mad.Method(in[3]) == mad.Set && binary.BigEndian.Uint16(in[16:]) == mad.AttrPortInfo {
				defer func() { *in = q }()
				var i mad.PortInfo
				i.Parse(in[64:])
				i.MKeyLease = 0
				i.Put(in[64:])
			}
			return next()
		})
		below := func() (i mad.PortInfo) {
			var in, out ci.MAD
			l.smp(mad.Get, mad.AttrPortInfo, 0).Put(in[:])
			kit.OK(t, l.ca.LocalMAD(l.ca.Port.Num, nil, &in, &out), "CA.LocalMAD of Get of PortInfo")
			i.Parse(out[64:])
			return i
		}
		l.leaseAt(2)
		want := below()
		kit.Equal(t, "M_KeyProtectBits of the driver before the end of the lease", want.MKeyProtect, 2)
		if !await(t, l.isReadable) {
			t.Failf("response to a Get with a wrong M_Key after the lease of one second", "a response", "none")
		}
		want.MKeyProtect = 0
		kit.Equal(t, "PortInfo of the driver after the lease", fmt.Sprintf("%+v", below()), fmt.Sprintf("%+v", want))
	}, drivers.Must("SMA-Driver-06", "IBTA 14.2.4", driverVerb,
		"When the lease of an M_Key ends at the kit, the protection level of the driver is 0, too. Nothing else of "+
			"its PortInfo changes."))

var _ = drivers.Add("sma.trap.early",
	"violations of the M_Key before and while the driver is queried after the Sets that name the manager",
	trapEarly, smaTrap01)

func trapEarly(t *validate.T) {
	var isSlow atomic.Bool
	began, proceed := make(chan struct{}, 1), make(chan struct{})
	l := scripted(t, &script{query: func(*ci.CAAttr) { // after the query of the driver
		if !isSlow.Load() {
			return
		}
		select {
		case began <- struct{}{}:
		default:
		}
		<-proceed
	}})
	end := sync.OnceFunc(func() {
		isSlow.Store(false)
		close(proceed)
	})
	t.Cleanup(end)
	wait := func(what string) {
		select {
		case <-began:
		case <-time.After(t.Remaining()):
			t.Failf(what, "a query of the driver", "none")
		}
	}
	reported := func(modifier uint32, when string) {
		l.violate(l.smp(mad.Set, mad.AttrPKeyTable, modifier))
		for {
			s, n := l.mustTrap("a wrong M_Key " + when)
			var d mad.TrapMKey
			if d.Parse(n.Details[:]); d.Modifier == modifier {
				kit.Equal(t, "issuer of the trap", ci.LID(n.IssuerLID), l.peer.lid)
				l.repress(&s)
				return
			}
		}
	}
	isSlow.Store(true)
	other := l.peer.ca.Port.LID + 1
	l.change(func(i *mad.PortInfo) { i.MasterSMLID, i.MKey, i.MKeyProtect = uint16(other), key, 1 })
	l.key = key
	wait("after the first Set")
	l.manage()
	reported(1, "while the query after the Set before this one lasts")
	proceed <- struct{}{}
	wait("after the second Set")
	reported(2, "while the query after the Set lasts")
	end()
	reported(3, "after the Set")
	l.quiet()
}
