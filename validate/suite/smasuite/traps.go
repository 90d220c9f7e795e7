package smasuite

import (
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Traps of the port to its subnet manager, which is the peer.
var traps = linkArea()

// subnetTimeout limits the rate of traps: 4.096 us * 2^14, 67 ms.
const subnetTimeout = 14

// managed returns a port whose subnet manager is the peer.
func managed(t *validate.T) *linked {
	l := link(t)
	l.manage()
	return l
}

// manage makes the peer the subnet manager of the port.
func (l *linked) manage() {
	if i := l.info(); i.CapabilityMask&uint32(ci.PortCapTrap) == 0 {
		l.t.Skip("PortInfo.CapabilityMask does not claim traps")
	}
	l.change(func(i *mad.PortInfo) {
		i.MasterSMLID, i.MasterSMSL, i.SubnetTimeout = uint16(l.peer.ca.Port.LID), 0, subnetTimeout
		i.MKey, i.MKeyProtect, i.MKeyLease = key, 1, 0
	})
	l.key = key
}

// violate sends a Set with a wrong M_Key.
func (l *linked) violate(q *mad.SMP) {
	q.MKey = wrongKey
	var m ci.MAD
	q.Put(m[:])
	l.peer.send(&m)
}

// trap waits for the next trap of the port.
func (l *linked) trap(d time.Duration) (s mad.SMP, n mad.Notice, ok bool) {
	m, ok := l.peer.take(d, func(m *ci.MAD) bool { return mad.Method(m[3]) == mad.Trap })
	s.Parse(m[:])
	n.Parse(s.Data[:])
	return s, n, ok
}

// mustTrap is trap for one that must arrive.
func (l *linked) mustTrap(after string) (s mad.SMP, n mad.Notice) {
	s, n, ok := l.trap(l.t.Remaining())
	kit.True(l.t, ok, "trap to MasterSMLID after "+after, "a trap", "none")
	return s, n
}

// repress acknowledges a trap.
func (l *linked) repress(s *mad.SMP) {
	r := *s
	r.Method, r.MKey = mad.TrapRepress, l.key
	var m ci.MAD
	r.Put(m[:])
	l.peer.send(&m)
}

var smaTrap01 = traps.Must("SMA-Trap-01", "IBTA 14.2.5.1", wireVerb,
	"A request with a wrong M_Key is reported to the subnet manager by trap 256, with the request and its route.")

var _ = traps.Add("sma.trap.bytes", "each field of trap 256", func(t *validate.T) {
	alone(t)
	l := managed(t)
	l.change(func(i *mad.PortInfo) {
		i.MKeyProtect = 2    // at level 1, a Get without the key is no violation
		i.SubnetTimeout = 18 // one second: a trap is repressed before it is repeated
	})
	var last uint64
	for _, v := range kit.Variants(t, "", violations) {
		q, want := v.request(l)
		if want.HopCount > 1 && want.LID != 0 && l.route().hops() > 1 {
			continue // switches between the ports take such a route for one that begins
		}
		q.MKey, want.MKey = wrongKey, wrongKey
		want.Method, want.Attribute, want.Modifier = q.Method, q.Attribute, q.Modifier
		var m ci.MAD
		q.Put(m[:])
		if want.LID != 0 {
			l.peer.sendTo(l.peer.lid, &m)
		} else {
			l.peer.send(&m)
		}
		s, n := l.mustTrap("a wrong M_Key")
		for s.TID == last { // a repetition that was on its way
			s, n = l.mustTrap("a wrong M_Key")
		}
		last = s.TID
		kit.Equal(t, "class and version of the trap", [2]uint8{uint8(s.Class), s.ClassVersion},
			[2]uint8{uint8(mad.ClassSubnetLID), mad.ClassVersionSubnet})
		kit.Equal(t, "attribute, modifier and status of the trap", [3]uint32{uint32(s.Attribute), s.Modifier,
			uint32(s.Status)}, [3]uint32{uint32(mad.AttrNotice), 0, 0})
		var d mad.TrapMKey
		d.Parse(n.Details[:])
		if want.LID == 0 {
			want.LID = d.LID // of a request without one
		}
		kit.Equal(t, "details of the trap after "+v.name, d, want)
		n.Details = [mad.NoticeDetailsLen]byte{}
		kit.Equal(t, "notice", n, mad.Notice{Generic: true, Type: mad.NoticeSecurity, Producer: mad.ProducerCA,
			Trap: mad.TrapBadMKey, IssuerLID: uint16(l.attr().LID)})
		l.repress(&s)
	}
}, smaTrap01)

// A violation is a request that fails the check of the M_Key.
type violation struct {
	name string
	// request returns the request, and what trap 256 has of it besides the fields of its header and its key. The
	// request is sent to the LID of the port, or along its directed route if the trap has no LID.
	request func(l *linked) (*mad.SMP, mad.TrapMKey)
}

var violations = []violation{
	{"a Set by LID", func(l *linked) (*mad.SMP, mad.TrapMKey) {
		return l.smp(mad.Set, mad.AttrPKeyTable, 0x1234), mad.TrapMKey{LID: uint16(l.peer.ca.Port.LID)}
	}},
	{"a Get by LID", func(l *linked) (*mad.SMP, mad.TrapMKey) {
		return l.smp(mad.Get, mad.AttrNodeInfo, 0xfedcba98), mad.TrapMKey{LID: uint16(l.peer.ca.Port.LID)}
	}},
	{"a trap repress by LID", func(l *linked) (*mad.SMP, mad.TrapMKey) {
		return l.smp(mad.TrapRepress, mad.AttrNotice, 0x55aa33cc), mad.TrapMKey{LID: uint16(l.peer.ca.Port.LID)}
	}},
	{"a Set along a directed route", func(l *linked) (*mad.SMP, mad.TrapMKey) {
		q := l.directed(mad.Set, mad.AttrPKeyTable)
		want := mad.TrapMKey{Directed: true, DrSLID: mad.PermissiveLID, HopCount: l.way.hops()}
		want.Truncated = int(want.HopCount) > len(want.ReturnPath)
		copy(want.ReturnPath[:], l.way.in[1:])
		return q, want
	}},
	{"a Set with a part by LID after 30 hops", func(l *linked) (*mad.SMP, mad.TrapMKey) { return l.afterHops(30) }},
	{"a Set with a part by LID after 31 hops", func(l *linked) (*mad.SMP, mad.TrapMKey) { return l.afterHops(31) }},
	{"a Set with a part by LID after 63 hops", func(l *linked) (*mad.SMP, mad.TrapMKey) { return l.afterHops(63) }},
}

// afterHops returns a request by LID that has come along a directed route before, and the details of its trap.
func (l *linked) afterHops(n uint8) (*mad.SMP, mad.TrapMKey) {
	q := l.smp(mad.Set, mad.AttrPKeyTable, 0)
	q.Class = mad.ClassSubnetDirected
	q.SetHops(n+1, n)
	q.DrSLID, q.DrDLID = mad.PermissiveLID, uint16(l.peer.lid)
	for i := range int(n) {
		q.ReturnPath[i+1] = byte(0x80 + i)
	}
	want := mad.TrapMKey{LID: uint16(l.peer.ca.Port.LID), Directed: true, DrSLID: mad.PermissiveLID, HopCount: n}
	want.Truncated = int(n) > len(want.ReturnPath)
	copy(want.ReturnPath[:], q.ReturnPath[1:])
	return q, want
}

var _ = traps.Add("sma.trap.repeated", "three transmissions of a trap", func(t *validate.T) {
	l := managed(t)
	start := time.Now()
	l.violate(l.smp(mad.Set, mad.AttrPKeyTable, 0))
	first, _ := l.mustTrap("a wrong M_Key")
	for range 2 {
		again, _ := l.mustTrap("a trap without a trap repress")
		l.sameMAD(again, first)
	}
	kit.AtLeast(t, "time from the event to the second repetition, for a SubnetTimeOut of 67 ms", time.Since(start),
		100*time.Millisecond)
}, traps.Must("SMA-Trap-02", "IBTA 13.4.9", wireVerb,
	"A trap is repeated unchanged until it is repressed, no more often than once in SubnetTimeOut."))

var smaTrap03 = traps.Must("SMA-Trap-03", "IBTA 13.4.9", wireVerb,
	"A trap repress with the trap's transaction ID and the M_Key ends its repetition.")

var _ = traps.Add("sma.trap.repressed", "acknowledge a trap", func(t *validate.T) {
	l := managed(t)
	l.violate(l.smp(mad.Set, mad.AttrPKeyTable, 0))
	first, _ := l.mustTrap("a wrong M_Key")
	for _, v := range []struct {
		name   string
		change func(s *mad.SMP)
	}{
		{"another transaction ID", func(s *mad.SMP) { s.TID++ }},
		{"another attribute", func(s *mad.SMP) { s.Attribute = mad.AttrPortInfo }},
	} {
		other := first
		v.change(&other)
		l.repress(&other)
		l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK)
		l.peer.list = nil
		l.mustTrap("a trap repress with " + v.name)
	}
	l.repress(&first)
	l.quiet()
}, smaTrap03)

var smaTrap04 = traps.Must("SMA-Trap-04", "IBTA 13.4.9", wireVerb,
	"Traps of two events have different transaction IDs.")

var _ = traps.Add("sma.trap.transactions", "two violations of the M_Key", func(t *validate.T) {
	l := managed(t)
	var tids [2]uint64
	for i := range tids {
		l.violate(l.smp(mad.Set, mad.AttrPKeyTable, uint32(i)))
		for {
			s, n := l.mustTrap("a wrong M_Key")
			var d mad.TrapMKey
			if d.Parse(n.Details[:]); d.Modifier == uint32(i) {
				tids[i] = s.TID
				break
			}
		}
	}
	kit.True(t, tids[0] != tids[1], "transaction IDs of two traps", "different ones", "%#x twice", tids[0])
}, smaTrap04)

var smaTrap05 = traps.Must("SMA-Trap-05", "IBTA 14.2.5.1", "CA.Modify",
	"A port that claims notices of its capability mask reports a change of it by trap 144.")

var smaTrap06 = traps.Must("SMA-Trap-06", "IBTA 13.4.9", wireVerb,
	"A trap repress ends the repetition of a trap that reports an event of the driver or the adapter.")

var _ = traps.Add("sma.trap.capability", "each field of trap 144", trapCapability, smaTrap05)

// changeCapability changes the capability mask of the port, and returns the trap that reports it.
func (l *linked) changeCapability() (s mad.SMP, n mad.Notice) {
	if i := l.info(); i.CapabilityMask&uint32(ci.PortCapMaskNotice) == 0 {
		l.t.Skip("PortInfo.CapabilityMask does not claim notices of its changes")
	}
	err := l.ca.Modify(l.ca.Port.Num, ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapSM,
		Capability: ci.PortCapSM})
	kit.OK(l.t, err, "CA.Modify of the capability mask")
	return l.mustTrap("a change of the capability mask")
}

func trapCapability(t *validate.T) {
	l := managed(t)
	before := l.attr().Capability
	_, n := l.changeCapability()
	var d mad.TrapCapability
	d.Parse(n.Details[:])
	attr := l.attr()
	kit.Equal(t, "details of the trap", d, mad.TrapCapability{LID: uint16(attr.LID),
		CapabilityMask: uint32(attr.Capability)})
	kit.Equal(t, "capability mask after CA.Modify of the bit IsSM", attr.Capability, before|ci.PortCapSM)
	n.Details = [mad.NoticeDetailsLen]byte{}
	kit.Equal(t, "notice", n, mad.Notice{Generic: true, Type: mad.NoticeInfo, Producer: mad.ProducerCA,
		Trap: mad.TrapCapabilityMask, IssuerLID: uint16(attr.LID)})
}

var _ = traps.Add("sma.trap.driver", "acknowledge trap 144", func(t *validate.T) {
	l := managed(t)
	first, _ := l.changeCapability()
	again, _ := l.mustTrap("a trap without a trap repress")
	l.sameMAD(again, first)
	l.repress(&first)
	l.quiet()
	for _, mask := range []ci.PortCap{ci.PortCapSM, 0} {
		m := ci.PortModify{CapMask: mask, Capability: ci.PortCapSM | ci.PortCapCM&^mask}
		kit.OK(t, l.ca.Modify(l.ca.Port.Num, ci.PortFieldCapability, m), "CA.Modify of the same capability mask")
		_, _, ok := l.trap(3 * late)
		kit.True(t, !ok, "trap after a CA.Modify that changes nothing", "none", "a trap")
	}
}, smaTrap06)

// quiet waits until the port sends no traps. One may be on its way.
func (l *linked) quiet() {
	for _, _, ok := l.trap(3 * late); ok; _, _, ok = l.trap(3 * late) {
		if l.t.Remaining() < time.Second {
			l.t.Failf("traps after the trap repress", "none", "repetitions")
		}
	}
}
