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
	if i := l.info(); i.CapabilityMask&uint32(ci.PortCapTrap) == 0 {
		t.Skip("PortInfo.CapabilityMask does not claim traps")
	}
	l.change(func(i *mad.PortInfo) {
		i.MasterSMLID, i.MasterSMSL, i.SubnetTimeout = uint16(l.peer.ca.Port.LID), 0, subnetTimeout
		i.MKey, i.MKeyProtect, i.MKeyLease = key, 1, 0
	})
	l.key = key
	return l
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

var SMATrap01 = traps.Must("SMA-Trap-01", "IBTA 14.2.5.1", wireVerb,
	"A request with a wrong M_Key is reported to the subnet manager by trap 256, with the request and its route.")

var _ = traps.Case(validate.Case{
	ID:    "sma.trap.bytes",
	Title: "each field of trap 256",
	Run:   trapBytes,
}, SMATrap01)

func trapBytes(t *validate.T) {
	l := managed(t)
	var last uint64
	for _, directed := range kit.Variants(t, "directed route", []bool{false, true}) {
		q := l.smp(mad.Set, mad.AttrPKeyTable, 0x1234)
		want := mad.TrapMKey{LID: uint16(l.peer.ca.Port.LID), Method: mad.Set, Attribute: mad.AttrPKeyTable,
			Modifier: 0x1234, MKey: wrongKey}
		if directed {
			q = l.directed(mad.Set, mad.AttrPKeyTable)
			want.Modifier, want.Directed = 0, true
			want.DrSLID, want.HopCount = mad.PermissiveLID, l.way.hops()
			want.Truncated = int(want.HopCount) > len(want.ReturnPath)
			copy(want.ReturnPath[:], l.way.in[1:])
		}
		l.violate(q)
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
		if directed {
			want.LID = d.LID // of a request without one
		}
		kit.Equal(t, "details of the trap", d, want)
		n.Details = [mad.NoticeDetailsLen]byte{}
		kit.Equal(t, "notice", n, mad.Notice{Generic: true, Type: mad.NoticeSecurity, Producer: mad.ProducerCA,
			Trap: mad.TrapBadMKey, IssuerLID: uint16(l.attr().LID)})
		l.repress(&s)
	}
}

var SMATrap02 = traps.Must("SMA-Trap-02", "IBTA 13.4.9", wireVerb,
	"A trap is repeated unchanged until it is repressed, no more often than once in SubnetTimeOut.")

var _ = traps.Case(validate.Case{
	ID:    "sma.trap.repeated",
	Title: "three transmissions of a trap",
	Run:   trapRepeated,
}, SMATrap02)

func trapRepeated(t *validate.T) {
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
}

var SMATrap03 = traps.Must("SMA-Trap-03", "IBTA 13.4.9", wireVerb,
	"A trap repress with the trap's transaction ID and the M_Key ends its repetition.")

var _ = traps.Case(validate.Case{
	ID:    "sma.trap.repressed",
	Title: "acknowledge a trap",
	Run:   trapRepressed,
}, SMATrap03)

func trapRepressed(t *validate.T) {
	l := managed(t)
	l.violate(l.smp(mad.Set, mad.AttrPKeyTable, 0))
	first, _ := l.mustTrap("a wrong M_Key")
	other := first
	other.TID++
	l.repress(&other)
	l.mustTrap("a trap repress with another transaction ID")
	l.repress(&first)
	l.quiet()
}

var SMATrap04 = traps.Must("SMA-Trap-04", "IBTA 13.4.9", wireVerb,
	"Traps of two events have different transaction IDs.")

var _ = traps.Case(validate.Case{
	ID:    "sma.trap.transactions",
	Title: "two violations of the M_Key",
	Run:   trapTransactions,
}, SMATrap04)

func trapTransactions(t *validate.T) {
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
}

var SMATrap05 = traps.Must("SMA-Trap-05", "IBTA 14.2.5.1", "CA.Modify",
	"A port that claims notices of its capability mask reports a change of it by trap 144.")

var SMATrap06 = traps.Must("SMA-Trap-06", "IBTA 13.4.9", wireVerb,
	"A trap repress ends the repetition of a trap that reports an event of the driver or the adapter.")

var _ = traps.Case(validate.Case{
	ID:    "sma.trap.capability",
	Title: "each field of trap 144",
	Run:   trapCapability,
}, SMATrap05)

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
	_, n := l.changeCapability()
	var d mad.TrapCapability
	d.Parse(n.Details[:])
	attr := l.attr()
	kit.Equal(t, "details of the trap", d, mad.TrapCapability{LID: uint16(attr.LID),
		CapabilityMask: uint32(attr.Capability)})
	kit.True(t, attr.Capability&ci.PortCapSM != 0, "capability mask after CA.Modify", "the bit IsSM", "%#x",
		uint32(attr.Capability))
	n.Details = [mad.NoticeDetailsLen]byte{}
	kit.Equal(t, "notice", n, mad.Notice{Generic: true, Type: mad.NoticeInfo, Producer: mad.ProducerCA,
		Trap: mad.TrapCapabilityMask, IssuerLID: uint16(attr.LID)})
}

var _ = traps.Case(validate.Case{
	ID:    "sma.trap.driver",
	Title: "acknowledge trap 144",
	Run:   trapDriver,
}, SMATrap06)

func trapDriver(t *validate.T) {
	l := managed(t)
	first, _ := l.changeCapability()
	again, _ := l.mustTrap("a trap without a trap repress")
	l.sameMAD(again, first)
	l.repress(&first)
	l.quiet()
}

// quiet waits until the port sends no traps. One may be on its way.
func (l *linked) quiet() {
	for _, _, ok := l.trap(3 * late); ok; _, _, ok = l.trap(3 * late) {
		if l.t.Remaining() < time.Second {
			l.t.Failf("traps after the trap repress", "none", "repetitions")
		}
	}
}
