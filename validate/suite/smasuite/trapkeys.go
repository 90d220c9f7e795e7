package smasuite

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Traps of changes by the driver's consumers, and of packets with wrong keys.

var _ = traps.Needing(validate.Needs{Caps: ci.CapSystemGUID}).Add("sma.trap.system-guid",
	"each field of trap 145", func(t *validate.T) {
		l := managed(t)
		if i := l.info(); i.CapabilityMask&uint32(ci.PortCapSystemGUID) == 0 {
			t.Skip("PortInfo.CapabilityMask does not claim a system image GUID")
		}
		const guid = 0x0123456789abcdef
		err := l.ca.Modify(l.ca.Port.Num, ci.PortFieldSystemGUID, ci.PortModify{SystemGUID: guid})
		kit.OK(t, err, "CA.Modify of the system image GUID")
		s, n := l.mustTrap("a change of the system image GUID")
		var d mad.TrapSystemGUID
		d.Parse(n.Details[:])
		kit.Equal(t, "details of the trap", d, mad.TrapSystemGUID{LID: uint16(l.attr().LID), GUID: guid})
		n.Details = [mad.NoticeDetailsLen]byte{}
		kit.Equal(t, "notice", n, mad.Notice{Generic: true, Type: mad.NoticeInfo, Producer: mad.ProducerCA,
			Trap: mad.TrapSystemGUIDChanged, IssuerLID: uint16(l.attr().LID)})
		l.repress(&s)
		var i mad.NodeInfo
		l.get(mad.AttrNodeInfo, 0, &i)
		kit.Equal(t, "NodeInfo.SystemImageGUID after CA.Modify", ci.GUID(i.SystemGUID), guid)
		l.quiet()
		err = l.ca.Modify(l.ca.Port.Num, ci.PortFieldSystemGUID, ci.PortModify{SystemGUID: guid})
		kit.OK(t, err, "CA.Modify of the same system image GUID")
		_, _, ok := l.trap(3 * late)
		kit.True(t, !ok, "trap after a CA.Modify that changes nothing", "none", "a trap")
	}, traps.Must("SMA-Trap-07", "IBTA 14.2.5.1", "CA.Modify",
		"A port that claims a system image GUID reports a change of it by trap 145. NodeInfo has the new one."))

var _ = traps.Needing(validate.Needs{Caps: ci.CapPKeyCounter | ci.CapUD}).Add("sma.trap.pkey",
	"each field of trap 257", func(t *validate.T) {
		l := managed(t)
		l.put(mad.AttrPKeyTable, 0, &mad.PKeyBlock{0x8123}, mad.StatusOK)
		l.wrongKey(t, mad.TrapBadPKey, uint32(l.peer.ca.Port.PKeys[0]), func(*ci.SendWR) {})
	}, traps.Must("SMA-Trap-08", "IBTA 14.2.5.1", wireVerb,
		"A port that counts packets with a wrong P_Key reports one by trap 257: its LIDs, P_Key, service level and "+
			"QPs."))

var _ = traps.Needing(validate.Needs{Caps: ci.CapQKeyCounter | ci.CapUD}).Add("sma.trap.qkey",
	"each field of trap 258", func(t *validate.T) {
		const bad = 0x00facade // the high bit is clear, so the request's own key is sent (IBTA 10.2.5)
		managed(t).wrongKey(t, mad.TrapBadQKey, bad, func(wr *ci.SendWR) { wr.To.QKey = bad })
	}, traps.Must("SMA-Trap-09", "IBTA 14.2.5.1", wireVerb,
		"A port that counts packets with a wrong Q_Key reports one by trap 258: its LIDs, Q_Key, service level and "+
			"QPs."))

// wrongKey sends a datagram that change has changed from the peer to the port, and checks the trap that reports it.
func (l *linked) wrongKey(t *validate.T, trap uint16, k uint32, change func(wr *ci.SendWR)) {
	c := kit.Options(l.ca, l.peer.ca, kit.Type(ci.UD))
	to, from := l.ca.End(c), l.peer.ca.End(c)
	for _, e := range []*kit.End{to, from} {
		e.Init().RTR(nil).RTS()
	}
	to.Recv(to.RecvWR(0, 0, grhLen+8))
	before := l.info()
	wr := from.SendWR(1, 0, 8)
	wr.To = ci.Dest{AV: l.peer.avOf(from, l.peer.lid), QPN: to.Num(), QKey: c.QKey}
	change(&wr)
	from.Send(wr)
	from.CQ.WaitOK(1)
	s, n := l.mustTrap("a datagram with a wrong key")
	counts := [2]uint16{before.PKeyViolations, before.QKeyViolations}
	if trap == mad.TrapBadPKey {
		counts[0]++
	} else {
		counts[1]++
	}
	now := l.info()
	kit.Equal(t, "P_KeyViolations and Q_KeyViolations after a datagram with a wrong key",
		[2]uint16{now.PKeyViolations, now.QKeyViolations}, counts)
	var d mad.TrapKey
	d.Parse(n.Details[:])
	d.GID1, d.GID2 = [16]byte{}, [16]byte{} // of a packet without them
	kit.Equal(t, "details of the trap", d, mad.TrapKey{LID1: uint16(l.peer.ca.Port.LID), LID2: uint16(l.attr().LID),
		Key: k, QP1: uint32(from.Num()), QP2: uint32(to.Num())})
	n.Details = [mad.NoticeDetailsLen]byte{}
	kit.Equal(t, "notice", n, mad.Notice{Generic: true, Type: mad.NoticeSecurity, Producer: mad.ProducerCA,
		Trap: trap, IssuerLID: uint16(l.attr().LID)})
	l.repress(&s)
}

var SMATrap10 = traps.Require(linkErrors())

// linkErrors returns a requirement that no case checks.
func linkErrors() req.Requirement {
	r := req.Driver.Should("SMA-Trap-10", "IBTA 14.2.5.1", wireVerb,
		"A port reports failing link integrity, overruns of its buffers and a peer without flow control by traps 129, "+
			"130 and 131.")
	r.Uncovered = "needs a link that fails below the packet: symbol errors, and credits that are ignored or missing; " +
		"no port of the kit has symbols or credits"
	return r
}
