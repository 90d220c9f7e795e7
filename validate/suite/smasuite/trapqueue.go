package smasuite

import (
	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Several traps at once: which of them go on, and to which manager.

// violateAt sends a Set of P_KeyTable with a wrong M_Key, and waits until the agent has received it. The modifier tells
// its trap from others.
func (l *linked) violateAt(modifier uint32) {
	l.violate(l.smp(mad.Set, mad.AttrPKeyTable, modifier))
	l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK)
}

// violated is violateAt, and returns the first trap that reports the violation.
func (l *linked) violated(modifier uint32) mad.SMP {
	l.violateAt(modifier)
	for {
		s, n := l.mustTrap("a wrong M_Key")
		var d mad.TrapMKey
		if d.Parse(n.Details[:]); n.Trap == mad.TrapBadMKey && d.Modifier == modifier {
			return s
		}
	}
}

var _ = traps.Add("sma.trap.each", "acknowledge the second of three traps, then the others", func(t *validate.T) {
	l := managed(t)
	var first [3]mad.SMP
	for i := range first {
		first[i] = l.violated(uint32(i))
	}
	l.repress(&first[1])
	l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK)
	l.peer.list = nil
	const rounds = 3
	seen := map[uint64]int{}
	for seen[first[0].TID] < rounds || seen[first[2].TID] < rounds {
		s, _ := l.mustTrap("three traps, of which the second one has been acknowledged")
		seen[s.TID]++
		for i := range first {
			if s.TID == first[i].TID {
				l.sameMAD(s, first[i])
			}
		}
	}
	kit.True(t, seen[first[1].TID] < 2, "repetitions of the trap that has been acknowledged", "none, or one on its way",
		"%d, and %d and %d of the others", seen[first[1].TID], seen[first[0].TID], seen[first[2].TID])
	kit.True(t, len(seen) <= len(first), "transaction IDs of three traps", "three", "%d", len(seen))
	l.repress(&first[2])
	l.repress(&first[0])
	l.quiet()
}, smaTrap03)

var _ = traps.Add("sma.trap.again", "the same violation before the trap repress", func(t *validate.T) {
	l := managed(t)
	first := l.violated(3)
	l.violateAt(3)
	l.repress(&first)
	second, n := l.mustTrap("a second violation")
	for second.TID == first.TID { // on its way
		second, n = l.mustTrap("a second violation")
	}
	var of mad.Notice
	of.Parse(first.Data[:])
	kit.Equal(t, "notice of the second trap", n, of)
	other := l.violated(4) // while the second one is repeated
	l.repress(&second)
	l.peer.list = nil
	for range 2 {
		again, _ := l.mustTrap("a trap repress for another trap")
		for again.TID == second.TID { // on its way
			again, _ = l.mustTrap("a trap repress for another trap")
		}
		l.sameMAD(again, other)
	}
	l.repress(&other)
	l.quiet()
	last := l.violated(5)
	for _, tid := range []uint64{first.TID, second.TID, other.TID} {
		kit.True(t, last.TID != tid, "transaction ID of a later trap", "another one", "%#x again", last.TID)
	}
	l.repress(&last)
	l.quiet()
}, smaTrap04)

var _ = traps.Add("sma.trap.many",
	"a change of the capability mask after 30 different violations", func(t *validate.T) {
		l := managed(t)
		for i := range uint32(30) {
			l.violate(l.smp(mad.Set, mad.AttrPKeyTable, i))
		}
		l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK)
		for _, n := l.changeCapability(); n.Trap != mad.TrapCapabilityMask; {
			_, n = l.mustTrap("a change of the capability mask")
		}
	}, traps.Must("SMA-Trap-11", "IBTA 14.2.5.1", wireVerb,
		"Many requests with wrong M_Keys, whose traps nobody acknowledges, do not keep the port from reporting "+
			"another event."))

var _ = traps.Add("sma.trap.notice", "read the notices of two traps, and acknowledge them by Sets", trapNotice,
	traps.Must("SMA-Trap-12", "IBTA 13.4.9", wireVerb,
		"A port that claims notices returns that of a trap that has not been acknowledged, with their number, to a "+
			"Get of Notice. A Set of the same notice acknowledges the trap, and a Set of another one changes "+
			"nothing."))

func trapNotice(t *validate.T) {
	alone(t)
	l := managed(t)
	if i := l.info(); i.CapabilityMask&uint32(ci.PortCapNotice) == 0 {
		t.Skip("PortInfo.CapabilityMask does not claim notices")
	}
	first := [...]mad.SMP{l.violated(1), l.violated(2)}
	for left := len(first); left > 0; left-- {
		var n mad.Notice
		l.get(mad.AttrNotice, 0, &n)
		kit.Equal(t, "NoticeCount", n.Count, uint16(left))
		n.Count = 0
		k := 0
		for ; k < len(first); k++ {
			var of mad.Notice
			if of.Parse(first[k].Data[:]); of == n {
				break
			}
		}
		kit.True(t, k < len(first), "Notice", "that of one of the traps", "%+v", n)
		other := n
		other.Details[14] ^= 1
		l.put(mad.AttrNotice, 0, &other, mad.StatusOK)
		again := n
		l.get(mad.AttrNotice, 0, &again)
		kit.Equal(t, "NoticeCount after a Set of another notice", again.Count, uint16(left))
		again.Count = 0
		kit.Equal(t, "Notice after a Set of another notice", again, n)
		q := l.smp(mad.Get, mad.AttrNotice, 0)
		n.Put(q.Data[:])
		r := l.do(q, mad.StatusOK)
		again.Parse(r.Data[:])
		kit.Equal(t, "NoticeCount in the response to a Get with the same notice", again.Count, uint16(left))
		l.put(mad.AttrNotice, 0, &n, mad.StatusOK)
		if left == 1 {
			break
		}
		l.peer.list = nil
		seen := map[uint64]int{}
		for seen[first[1-k].TID] < 3 {
			s, _ := l.mustTrap("a Set of the notice of another trap")
			seen[s.TID]++
		}
		kit.True(t, seen[first[k].TID] < 2, "repetitions of the trap whose notice was set", "none, or one on its way",
			"%d, and 3 of the other trap", seen[first[k].TID])
	}
	var n mad.Notice
	l.get(mad.AttrNotice, 0, &n)
	kit.Equal(t, "Notice after Sets of all", n, mad.Notice{Generic: true, Type: mad.NoticeEmpty,
		Producer: mad.ProducerCA})
	l.quiet()
}

var _ = traps.Add("sma.trap.manager",
	"change MasterSMLID while a trap is repeated, and change it back", func(t *validate.T) {
		const nobody = 0xbffe
		l := managed(t)
		first := l.violated(5)
		was := l.peer.ca.Port.LID
		l.change(func(i *mad.PortInfo) { i.MasterSMLID = nobody })
		l.quiet()
		l.change(func(i *mad.PortInfo) { i.MasterSMLID = uint16(was) })
		again, _ := l.mustTrap("a Set of the first MasterSMLID")
		l.sameMAD(again, first)
		l.repress(&first)
		l.quiet()
	}, traps.Must("SMA-Trap-13", "IBTA 13.4.9", wireVerb,
		"A trap that has not been acknowledged is repeated to the subnet manager that the port has then."))

var _ = traps.Add("sma.trap.inactive",
	"a trap that is repeated, and a new event, while the port is in Init", func(t *validate.T) {
		alone(t)
		l := managed(t)
		l.violated(6)
		l.forget()
		l.change(func(i *mad.PortInfo) { i.State = uint8(ci.PortDown) })
		l.awaitState(ci.PortInit)
		l.await(accesslayer.PortInit, "the link has trained") // the services know the state, too
		for i := range uint32(2) {
			l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK)
			l.peer.list = nil
			_, n, ok := l.trap(3 * late)
			kit.True(t, !ok, "traps of a port in Init, for a SubnetTimeOut of 67 ms", "none", "trap %d", n.Trap)
			if i == 0 {
				l.violateAt(7)
			}
		}
		for _, s := range []ci.PortState{ci.PortArmed, ci.PortActive} {
			l.change(func(i *mad.PortInfo) { i.State = uint8(s) })
		}
		l.await(accesslayer.PortActive, "a Set of Active")
		l.violated(8)
	}, traps.Must("SMA-Trap-14", "IBTA 14.2.5.1", wireVerb,
		"A port sends no traps before it is active: neither repetitions, nor traps of new events. When it is active "+
			"again, it reports events."))

// alone skips the case on a link with a subnet manager of its own, which sends requests to the port meanwhile and reads
// and acknowledges its notices.
func alone(t *validate.T) {
	if t.Link() == "fabric" {
		t.Skip("the subnet manager of the fabric manages the port meanwhile")
	}
}
