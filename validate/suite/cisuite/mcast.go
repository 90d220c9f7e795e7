package cisuite

import (
	"bytes"
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

const (
	mcastQPN ci.QPN = 0xffffff // destination of every multicast packet (IBTA 10.5.2)
	mlid1    ci.LID = 0xc001
)

// mcastCases are the cases of unreliable multicast. (IBTA 10.5, 11.3.1, 11.3.2.)
var mcastCases = &validate.Area{Feature: validate.FeatureMulticast,
	Needs: validate.Needs{Caps: ci.CapUD | ci.CapAV | ci.CapMulticast}}

// group is a multicast group and the sender's address of it.
type group struct {
	gid  ci.GID
	mlid ci.LID
	dest ci.Dest
}

// joinable returns group n for ports like that of the CA. On Ethernet the address has the family of the port's GID and
// is derived from it, so that concurrent runs on one machine use different groups.
func joinable(t *validate.T, p *kit.Pair, n byte) *group { return joinableOf(t, p, n, 0) }

// joinableOf returns the k-th of several groups that have the same number n. With k = 0, it is joinable.
func joinableOf(t *validate.T, p *kit.Pair, n, k byte) *group {
	ca := p.A.QP.CA
	av := ca.AddressOf(p.B.QP.CA)
	g := &group{gid: ci.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 12: 0x77, 15: n}, mlid: mlid1 + ci.LID(n-1)}
	if ca.Port.Link == ci.LinkEthernet {
		own := ca.Port.GIDs[av.GRH.SGIDIndex].GID
		if isIPv4(own) {
			high, low := (n-1)%16, (n-1)/16 // of the 16 networks of groups, and beyond
			g.gid = ci.GID{10: 0xff, 11: 0xff, 12: 239 - high, 13: own[13], 14: own[14] ^ low, 15: own[15]}
		} else {
			copy(g.gid[4:12], own[8:])
		}
	}
	g.gid[13], g.mlid = g.gid[13]^k, g.mlid+ci.LID(k)
	av.Global, av.DLID = true, g.mlid
	av.GRH.DGID, av.GRH.HopLimit = g.gid, 1
	in, err := p.A.PD.CreateAV(av)
	kit.OK(t, err, "PD.CreateAV of a multicast address")
	g.dest = ci.Dest{AV: kit.Own(t, in, "AV"), QPN: mcastQPN, QKey: p.B.Config.QKey}
	return g
}

// join attaches the QP of an end.
func (g *group) join(t *validate.T, e *kit.End) ci.Mcast {
	m, err := e.AttachMcast(ci.McastAttach{GID: g.gid, LID: g.mlid})
	kit.OK(t, err, "QP.AttachMcast")
	return kit.Own(t, m, "Mcast")
}

// send sends a datagram of 64 random bytes to the group and returns them.
func (g *group) send(t *validate.T, from *kit.End, id uint64) []byte {
	t.Multicast()
	want := append([]byte(nil), from.Buf.Fill(t, 0, 64)...)
	wr := from.SendWR(id, 0, 64)
	wr.To = g.dest
	from.Send(wr)
	from.CQ.WaitOK(id)
	return want
}

// member is an end whose receives have one slot each, in order.
type member struct {
	*kit.End
	next uint64
}

const slot = 40 + 64

// ready posts a receive for the next datagram.
func (m *member) ready() {
	m.next++
	m.Recv(m.RecvWR(m.next, int(m.next)*slot, slot))
}

// got expects the datagram in the member's newest receive.
func (m *member) got(t *validate.T, want []byte, from *kit.End, who string) {
	m.check(t, m.RecvCQ.WaitOK(m.next)[0], want, from, who)
}

// gotAs sends datagrams of which the member must get one. Another member gets each of them, so that losses of a network
// are no excuse.
func (m *member) gotAs(t *validate.T, g *group, from *kit.End, other *member, who string) {
	const tries = 5
	m.ready()
	for id := range uint64(tries) {
		other.ready()
		other.got(t, g.send(t, from, id), from, "another member")
		if wc := m.RecvCQ.Within(1, quiet); len(wc) == 1 {
			kit.Equal(t, who+": status of the receive", wc[0].Status, ci.WCSuccess)
			return
		}
	}
	t.Failf(who, fmt.Sprintf("one of %d datagrams that another member has", tries), "none")
}

// gotAfter expects the datagram in one of the member's two newest receives. The datagram late may come before it.
func (m *member) gotAfter(t *validate.T, late, want []byte, from *kit.End, who string) {
	wc := m.RecvCQ.WaitOK(m.next - 1)[0]
	if bytes.Equal(m.data(wc.ID), late) {
		m.got(t, want, from, who)
		return
	}
	m.check(t, wc, want, from, who)
}

// data returns the bytes of the datagram in a receive.
func (m *member) data(id uint64) []byte { return m.Buf.Bytes[int(id)*slot+40:][:slot-40] }

func (m *member) check(t *validate.T, wc ci.WC, want []byte, from *kit.End, who string) {
	kit.Equal(t, who+": WC.Length", wc.Length, slot)
	kit.Equal(t, who+": WC.SrcQP", wc.SrcQP, from.Num())
	kit.True(t, wc.Flags&ci.WCGRH != 0, who+": WC.Flags", "WCGRH", "%#x", wc.Flags)
	kit.SameBytes(t, who+": datagram", m.data(wc.ID), want)
	m.RecvCQ.Empty()
}

// members returns n receivers on B. The first of them is p.B.
func members(p *kit.Pair, n int) []*member {
	out := []*member{{End: p.B}}
	for len(out) < n {
		out = append(out, &member{End: p.More(false).B})
	}
	return out
}

var _ = mcastCases.Add("mcast.receivers", "members of both adapters, and a QP that is not a member", mcastReceivers,
	mcastCases.Must("CI-Mcast-01", "IBTA 10.5.2.1", "ci_attach_mcast (63)",
		"A datagram to a group reaches each attached QP once, with a GRH, and no other QP."))

func mcastReceivers(t *validate.T) {
	p := kit.UD(t, kit.Size(1<<14))
	g := joinable(t, p, 1)
	ms := members(p, 4)
	other := ms[3]
	ms = ms[:3]
	if p.A.QP.CA.Port.Link == ci.LinkInfiniBand { // an Ethernet port need not hear its own frames
		ms = append(ms, &member{End: p.More(false).A})
	}
	other.ready()
	for _, m := range ms {
		m.ready()
		g.join(t, m.End)
	}
	for range 3 {
		want := g.send(t, p.A, 1)
		for i, m := range ms {
			m.got(t, want, p.A, fmt.Sprintf("member %d", i+1))
			m.ready()
		}
	}
	other.RecvCQ.Quiet(quiet / 4)
}

var _ = mcastCases.Add("mcast.detach", "one of two members is detached", func(t *validate.T) {
	p := kit.UD(t, kit.Size(1<<14))
	g := joinable(t, p, 1)
	ms := members(p, 3)
	for _, m := range ms {
		m.ready()
	}
	leaves := g.join(t, ms[0].End)
	stays := g.join(t, ms[1].End)
	want := g.send(t, p.A, 1)
	for i, m := range ms[:2] {
		m.got(t, want, p.A, fmt.Sprintf("member %d", i+1))
	}
	ms[0].ready()
	kit.Destroy(t, leaves, "Mcast")
	other := g.join(t, ms[2].End) // its receive is the one from before
	ms[2].got(t, g.send(t, p.A, 2), p.A, "new member")
	ms[1].gotAs(t, g, p.A, ms[2], "member that is still attached")
	ms[0].RecvCQ.Quiet(quiet / 4)
	kit.Destroy(t, other, "Mcast")
	kit.Destroy(t, stays, "Mcast")
	ms[1].ready()
	late := g.send(t, p.A, 3)
	ms[1].RecvCQ.Quiet(quiet / 4)
	ms[0].ready()
	again := g.join(t, ms[0].End)
	want = g.send(t, p.A, 4)
	// On a slow network, the datagram before may arrive when the QP is attached again.
	ms[0].gotAfter(t, late, want, p.A, "member that was attached again")
	kit.Destroy(t, again, "Mcast")
}, mcastCases.Must("CI-Mcast-02", "IBTA 11.3.2", "ci_detach_mcast (64)",
	"A detached QP receives no more datagrams of the group. Other members still do."))

var _ = mcastCases.Add("mcast.type", "attach a connected QP", func(t *validate.T) {
	p := kit.RC(t)
	u := kit.Pair{A: p.A, B: p.B}
	g := joinable(t, &u, 1)
	for _, q := range []*kit.QP{p.A.QP, p.A.QP.CA.QP(p.A.PD, p.A.CQ, p.A.CQ)} {
		m, err := q.AttachMcast(ci.McastAttach{GID: g.gid, LID: g.mlid})
		kit.WantRefused(t, m, err, "QP.AttachMcast of an RC QP in "+q.State().String(), ci.InvalidServiceType)
	}
}, mcastCases.Must("CI-Mcast-03", "IBTA 11.3.1", "ci_attach_mcast (63)",
	"AttachMcast of a QP that is not a UD QP fails with InvalidServiceType."))

var _ = mcastCases.Add("mcast.gid", "attach with unicast GIDs", func(t *validate.T) {
	p := kit.UD(t)
	list := []ci.GID{{}, p.A.QP.CA.Port.GIDs[0].GID, {0xfe, 0x80, 15: 1}, {10: 0xff, 11: 0xff, 12: 192, 15: 1},
		// Almost the form of an IPv4 group.
		{10: 0xff, 12: 239, 15: 1}, {11: 0xff, 12: 239, 15: 1}, {9: 1, 10: 0xff, 11: 0xff, 12: 239, 15: 1}}
	hasFamily := func(v4 bool) bool {
		return slices.ContainsFunc(p.A.QP.CA.Port.GIDs, func(e ci.GIDEntry) bool {
			return e.GID != ci.GID{} && isIPv4(e.GID) == v4
		})
	}
	if p.A.QP.CA.Port.Link == ci.LinkEthernet { // a group of a family of addresses that the port does not have
		if !hasFamily(true) {
			list = append(list, ci.GID{10: 0xff, 11: 0xff, 12: 239, 15: 1})
		}
		if !hasFamily(false) {
			list = append(list, ci.GID{0xff, 0x12, 15: 1})
		}
	}
	for _, gid := range kit.Variants(t, "GID", list) {
		m, err := p.A.AttachMcast(ci.McastAttach{GID: gid, LID: mlid1})
		kit.WantRefused(t, m, err, fmt.Sprintf("QP.AttachMcast to GID %x", gid[:]), ci.InvalidGID)
	}
}, mcastCases.Must("CI-Mcast-04", "IBTA 11.3.1", "ci_attach_mcast (63)",
	"AttachMcast with a GID that is not a multicast address fails with InvalidGID."))

// isIPv4 reports whether a GID is a mapped IPv4 address.
func isIPv4(g ci.GID) bool { return [12]byte(g[:12]) == [12]byte{10: 0xff, 11: 0xff} }

var _ = mcastCases.Needing(
	validate.Needs{Caps: ci.CapUD | ci.CapAV | ci.CapMulticast, Links: []ci.Link{ci.LinkInfiniBand}}).Add(
	"mcast.lid", "attach with unicast LIDs", mcastLID,
	mcastCases.Must("CI-Mcast-05", "IBTA 11.3.1", "ci_attach_mcast (63)",
		"On InfiniBand, AttachMcast with a LID outside C000 to FFFE fails with InvalidLID."))

func mcastLID(t *validate.T) {
	p := kit.UD(t)
	g := joinable(t, p, 1)
	for _, lid := range kit.Variants(t, "LID", []ci.LID{0, 1, 0xbfff, 0xffff}) {
		m, err := p.A.AttachMcast(ci.McastAttach{GID: g.gid, LID: lid})
		kit.WantRefused(t, m, err, fmt.Sprintf("QP.AttachMcast with LID %#x", uint16(lid)), ci.InvalidLID)
	}
	for _, lid := range kit.Variants(t, "LID", []ci.LID{0xc000, 0xfffe}) {
		m, err := p.A.AttachMcast(ci.McastAttach{GID: g.gid, LID: lid})
		kit.OK(t, err, fmt.Sprintf("QP.AttachMcast with LID %#x", uint16(lid)))
		kit.Destroy(t, kit.Own(t, m, "Mcast"), "Mcast")
	}
}

var _ = mcastCases.Add("mcast.busy", "destroy an attached QP", func(t *validate.T) {
	p := kit.UD(t, kit.Size(1<<14))
	g := joinable(t, p, 1)
	m := &member{End: p.B}
	m.ready()
	joined := g.join(t, m.End)
	kit.WantExactly(t, p.B.QP.QP.Destroy(), "QP.Destroy while attached", ci.ResourceBusy)
	m.got(t, g.send(t, p.A, 1), p.A, "member after the rejected QP.Destroy")
	kit.Destroy(t, joined, "Mcast")
	kit.Destroy(t, p.B.QP.QP, "QP")
}, mcastCases.Must("CI-Mcast-06", "CI context", "ci_destroy_qp (28)",
	"Destroy of an attached QP fails with ResourceBusy, and the QP still receives."), req.SAS2_3_26)

var _ = mcastCases.Add("mcast.twice", "attach one QP twice", func(t *validate.T) {
	p := kit.UD(t, kit.Size(1<<14))
	g := joinable(t, p, 1)
	ms := members(p, 2)
	m := ms[0]
	first, second := g.join(t, m.End), g.join(t, m.End)
	kit.True(t, !ci.Same(first, second), "handles of two attachments", "different ones", "the same")
	m.ready()
	m.ready() // a second copy would use this receive
	want := g.send(t, p.A, 1)
	m.RecvCQ.WaitOK(1)
	kit.SameBytes(t, "datagram", m.Buf.Bytes[slot+40:2*slot], want)
	m.RecvCQ.Quiet(quiet / 4)
	kit.Destroy(t, first, "Mcast")
	other := g.join(t, ms[1].End)
	m.gotAs(t, g, p.A, ms[1], "member with one of two attachments")
	kit.Destroy(t, other, "Mcast")
	kit.Destroy(t, second, "Mcast")
	m.ready()
	g.send(t, p.A, 3)
	m.RecvCQ.Quiet(quiet / 4)
}, mcastCases.Must("CI-Mcast-07", "CI context", "ci_attach_mcast (63)",
	"Each attachment has its own handle. A QP that is attached twice receives one copy of each datagram until "+
		"both attachments are destroyed."))

var ciMcast08 = mcastCases.Must("CI-Mcast-08", "IBTA 10.5.2.2", "ci_attach_mcast (63)",
	"A QP attached to two groups receives from both until it leaves one of them. A QP attached to one group receives "+
		"only from that group.")

var _ = mcastCases.Add("mcast.groups", "two groups", func(t *validate.T) {
	p := kit.UD(t, kit.Size(1<<14))
	g1, g2 := joinable(t, p, 1), joinable(t, p, 2)
	ms := members(p, 2)
	both, one := ms[0], ms[1]
	for _, m := range ms {
		m.ready()
	}
	first := g1.join(t, both.End)
	g2.join(t, both.End)
	g1.join(t, one.End)
	both.got(t, g2.send(t, p.A, 1), p.A, "member of both groups, from the second group")
	both.ready()
	want := g1.send(t, p.A, 2)
	both.got(t, want, p.A, "member of both groups, from the first group")
	// the datagram of the second group is not before it
	one.got(t, want, p.A, "member of the first group, from the first group")
	kit.Destroy(t, first, "Mcast")
	g2.join(t, one.End)
	both.gotAs(t, g2, p.A, one, "member that has left the first group, from the second group")
}, ciMcast08)

var _ = mcastCases.Add("mcast.many", "many groups, until the driver has no more", func(t *validate.T) {
	const most = 70
	p := kit.UD(t, kit.Size(1<<14))
	m := &member{End: p.B}
	m.ready()
	var last *group
	var joined []ci.Mcast
	for k := range min(most, t.Attr().MaxMcastGroups, t.Attr().MaxMcastQPs) {
		g := joinableOf(t, p, 1, byte(k))
		in, err := m.AttachMcast(ci.McastAttach{GID: g.gid, LID: g.mlid})
		if err != nil {
			kit.WantRefused(t, in, err, "QP.AttachMcast to one more group", ci.InsufficientResources,
				ci.MaxMcastQPsReached)
			break
		}
		joined, last = append(joined, kit.Own(t, in, "Mcast")), g
	}
	kit.AtLeast(t, "groups of one QP", len(joined), 1)
	m.got(t, last.send(t, p.A, 1), p.A, "member of many groups, from the last one")
	for _, in := range joined {
		kit.Destroy(t, in, "Mcast")
	}
	last.join(t, m.End)
	m.ready()
	m.got(t, last.send(t, p.A, 2), p.A, "member of one of these groups alone")
}, ciMcast08)

var _ = mcastCases.Add("mcast.qkey", "a member with another Q_Key", func(t *validate.T) {
	p := kit.UD(t, kit.Size(1<<14))
	g := joinable(t, p, 1)
	other := p.B.QP.CA.QP(p.B.PD, p.B.CQ, p.B.CQ, kit.Type(ci.UD), kit.QKey(0x33333333)).Init().RTR(nil).RTS()
	other.Recv(p.B.RecvWR(77, 8192, slot))
	m := &member{End: p.B}
	m.ready()
	g.join(t, m.End)
	am, err := other.AttachMcast(ci.McastAttach{GID: g.gid, LID: g.mlid})
	kit.OK(t, err, "QP.AttachMcast")
	kit.Own(t, am, "Mcast")
	m.got(t, g.send(t, p.A, 1), p.A, "member with the sender's Q_Key")
	p.B.CQ.Quiet(quiet / 4)
}, mcastCases.Must("CI-Mcast-09", "IBTA 10.2.5", "ci_attach_mcast (63)",
	"A datagram to a group with a Q_Key other than the QP's is not received."))

var _ = mcastCases.Add("mcast.stale", "detach twice", func(t *validate.T) {
	p := kit.UD(t)
	g := joinable(t, p, 1)
	old := g.join(t, p.B)
	kit.DestroyTwice(t, old, "Mcast", ci.InvalidMcastHandle)
	next := g.join(t, p.B)
	kit.WantExactly(t, old.Destroy(), "Mcast.Destroy of a destroyed attachment after another attachment",
		ci.InvalidMcastHandle)
	kit.Destroy(t, next, "Mcast")
}, mcastCases.Must("CI-Mcast-10", "CI context", "ci_detach_mcast (64)",
	"A verb on a destroyed attachment fails with InvalidMcastHandle."))
