package cmsuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Where datagrams come from: each form of address that a completion and a GRH can have.

var MADAddr03 = datagrams.Must("MAD-Addr-03", "IBTA 13.5.4", "mads, Received.From, SGID, DGID",
	"A datagram is received with the address to which a response goes, made of its LID, service level, path, P_Key "+
		"and GRH or IP header. One without a valid source is dropped.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.address.sources",
	Title: "datagrams from each form of source on QP1, valid and not",
	Run:   addressSources,
}, MADAddr03)

// arriving is a datagram that a variant makes of one that has arrived.
type arriving struct {
	w   *ci.WC
	grh []byte
}

// ipv6 writes a GRH or an IPv6 header.
func (x arriving) ipv6(s, d ci.GID) {
	x.w.Flags |= ci.WCGRH
	clear(x.grh)
	binary.BigEndian.PutUint32(x.grh, 6<<28|0xa5<<20|0x9_8765)
	copy(x.grh[8:], s[:])
	copy(x.grh[24:], d[:])
}

// ipv4 writes an IPv4 header after 20 unused bytes.
func (x arriving) ipv4(s, d ci.GID) {
	x.w.Flags |= ci.WCGRH
	clear(x.grh)
	x.grh[20], x.grh[21] = 0x45, 0xa5
	copy(x.grh[32:], s[12:])
	copy(x.grh[36:], d[12:])
}

// gid returns a GID of its first and last bytes.
func gidOf(first []byte, last ...byte) (g ci.GID) {
	copy(g[:], first)
	copy(g[16-len(last):], last)
	return g
}

func mapped(last ...byte) ci.GID { return gidOf(nil, append([]byte{0xff, 0xff}, last...)...) }

func addressSources(t *validate.T) {
	twice, mine := gidOf([]byte{0xfd, 1}, 77), gidOf([]byte{0xfd, 1}, 78)
	table := func(a *ci.CAAttr) {
		for i := range a.Ports {
			p := &a.Ports[i]
			typ := [2]ci.GIDType{ci.GIDRoCEv1, ci.GIDRoCEv2}
			if p.Link == ci.LinkInfiniBand {
				typ = [2]ci.GIDType{}
			}
			p.GIDs = append(p.GIDs, ci.GIDEntry{GID: twice, Type: typ[0]}, ci.GIDEntry{GID: twice, Type: typ[1]},
				ci.GIDEntry{GID: mine, Type: typ[0]}, ci.GIDEntry{GID: mine, Type: typ[0]})
		}
	}
	b := newBench(t, benchSetting{query: table})
	isIB := b.ca.Port.Link == ci.LinkInfiniBand
	n := uint16(len(b.ca.Port.GIDs)) - 4 // without those of table
	own := b.ca.Port.GIDs[0].GID
	from := gidOf([]byte{0xfd, 2}, 5)
	agent := b.agent(vendor(mad.Send))
	lid := func(l ci.LID) func(arriving) { return func(x arriving) { x.w.SLID = l } }
	v6 := func(s, d ci.GID) func(arriving) { return func(x arriving) { x.ipv6(s, d) } }
	v4 := func(s, d ci.GID) func(arriving) { return func(x arriving) { x.ipv4(s, d) } }
	group := gidOf([]byte{0xff, 0x12}, 9)
	type variant struct {
		name  string
		make  func(x arriving)
		sgid  ci.GID // zero: without a GRH
		dgid  ci.GID
		index uint16 // of the GID of the response
		isV4  bool
		drop  bool
	}
	variants := []variant{
		{name: "GRH to the port", make: v6(from, own), sgid: from, dgid: own},
		{name: "GRH to a group", make: v6(from, group), sgid: from, dgid: group},
		{name: "GRH to a group of IPv4", make: v6(from, mapped(224, 0, 0, 1)), sgid: from, dgid: mapped(224, 0, 0, 1)},
		{name: "GRH from a group", make: v6(group, own), drop: true},
		{name: "GRH from a group of IPv4", make: v6(mapped(239, 1, 2, 3), own), drop: true},
		{name: "GRH from IPv4 below the groups", make: v6(mapped(223, 1, 2, 3), own), sgid: mapped(223, 1, 2, 3),
			dgid: own},
		{name: "GRH from IPv4 above the groups", make: v6(mapped(240, 1, 2, 3), own), sgid: mapped(240, 1, 2, 3),
			dgid: own},
		{name: "GRH from an address whose byte 12 is that of a group", make: v6(gidOf([]byte{0xfd}, 0xe0, 1, 2, 3),
			own),
			sgid: gidOf([]byte{0xfd}, 0xe0, 1, 2, 3), dgid: own},
		{name: "GRH from the GID 0", make: v6(ci.GID{}, own), drop: true},
		{name: "GRH of version 4", make: func(x arriving) { x.ipv6(from, own); x.grh[0] = 0x4a }, drop: true},
		{name: "GRH of version 7", make: func(x arriving) { x.ipv6(from, own); x.grh[0] = 0x7a }, drop: true},
		{name: "no header where there should be one", make: func(x arriving) { x.w.Flags |= ci.WCGRH; clear(x.grh) },
			drop: true},
		{name: "to a GID that is twice in the table", make: v6(from, twice), sgid: from, dgid: twice, index: n + 1},
		{name: "to a GID that is twice in the table for RoCEv1", make: v6(from, mine), sgid: from, dgid: mine,
			index: n + 2},
	}
	stranger := gidOf([]byte{0xfd, 9}, 9)
	if isIB {
		variants[len(variants)-2].index = n
		variants = append(variants, []variant{
			{name: "no GRH", make: func(arriving) {}},
			{name: "LID 0xbfff", make: lid(0xbfff)}, {name: "LID 1", make: lid(1)}, {name: "LID 0", make: lid(0),
				drop: true},
			{name: "LID 0xc000", make: lid(0xc000), drop: true}, {name: "LID 0xfffe", make: lid(0xfffe), drop: true},
			{name: "the permissive LID", make: lid(0xffff), drop: true},
			{name: "GRH to a GID that the port does not have", make: v6(from, stranger), sgid: from, dgid: stranger},
			{name: "an IPv4 header", make: v4(mapped(10, 1, 2, 3), mapped(10, 1, 2, 4)), drop: true},
		}...)
	} else {
		theirs := mapped(10, 1, 2, 3)
		variants = append(variants, []variant{
			{name: "no GRH", make: func(x arriving) { x.w.Flags &^= ci.WCGRH }, drop: true},
			{name: "GRH to a GID that the port does not have", make: v6(from, stranger), drop: true},
			{name: "IPv4 to an address that the port does not have", make: v4(theirs, mapped(10, 9, 9, 9)), drop: true},
			{name: "IPv4 to a group", make: v4(theirs, mapped(224, 0, 0, 9)), sgid: theirs, dgid: mapped(224, 0, 0, 9),
				isV4: true},
			{name: "IPv4 from a group", make: v4(mapped(224, 0, 0, 9), mapped(224, 0, 0, 9)), drop: true},
			{name: "version 5 in the place of IPv4", drop: true,
				make: func(x arriving) { x.ipv4(theirs, mapped(224, 0, 0, 9)); x.grh[20] = 0x55 }},
		}...)
		if own == mapped(own[12:]...) {
			variants = append(variants, variant{name: "IPv4 to the port", make: v4(theirs, own), sgid: theirs,
				dgid: own,
				isV4: true})
		}
	}
	for i, v := range kit.Variants(t, "", variants) {
		m := datagram(t, mad.Send, uint64(i)+100)
		var src ci.WC
		b.inject(1, func(w *ci.WC, slot []byte) {
			w.SLID, w.SL, w.PathBits = 0x1234, 9, 3
			w.SrcQP, w.PKeyIndex = 0x654321, 2
			if isIB {
				w.Flags &^= ci.WCGRH
			}
			v.make(arriving{w, slot[:grhLen]})
			src = *w
			copy(slot[grhLen:], m)
		})
		last := datagram(t, mad.Send, 1)
		b.deliver(1, last)
		r := recv(t, agent, "datagram from "+v.name)
		if !v.drop {
			kit.SameBytes(t, "datagram from "+v.name, r.MAD, m)
			want := mads.Address{QPN: src.SrcQP, QKey: ci.QKey(mad.QKeyGSI), PKeyIndex: src.PKeyIndex,
				AV: ci.AVAttr{Port: b.port.Num}}
			if isIB {
				want.AV.SL, want.AV.PathBits, want.AV.DLID = 9, 3, src.SLID
			}
			if v.sgid != (ci.GID{}) {
				want.AV.Global = true
				want.AV.GRH = ci.GRH{DGID: v.sgid, SGIDIndex: v.index, FlowLabel: 0x9_8765, TrafficClass: 0xa5,
					HopLimit: 64}
				if isIB {
					want.AV.GRH.HopLimit = 255
				}
				if v.isV4 {
					want.AV.GRH.FlowLabel = 0
				}
			}
			kit.Equal(t, "Received.Port", r.Port, b.port)
			kit.Equal(t, "Received.GRH", r.GRH, v.sgid != ci.GID{})
			kit.Equal(t, "Received.SGID and DGID", [2]ci.GID{r.SGID, r.DGID}, [2]ci.GID{v.sgid, v.dgid})
			kit.Equal(t, "Received.From", fmt.Sprintf("%+v", r.From), fmt.Sprintf("%+v", want))
			r = recv(t, agent, "datagram after one from "+v.name)
		}
		kit.SameBytes(t, "next datagram after "+v.name, r.MAD, last)
	}
}

var MADAddr04 = datagrams.Must("MAD-Addr-04", "IBTA 13.5.4", "mads, Received.From",
	"A subnet management datagram from a port without a LID has the permissive LID as the address of its response.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.address.qp0",
	Title: "datagrams from each form of source on QP0, valid and not",
	Needs: validate.Needs{Links: []ci.Link{ci.LinkInfiniBand}},
	Run:   addressQP0,
}, MADAddr04)

func addressQP0(t *validate.T) {
	b := newBench(t, benchSetting{})
	b.onQP0()
	agent := b.agent(mads.AgentConfig{Class: mad.ClassSubnetLID, Version: 7, Methods: []mad.Method{mad.Trap},
		SubnetManagement: true})
	for _, v := range kit.Variants(t, "LID", []struct {
		lid, want ci.LID // 0: dropped
	}{{1, 1}, {0xbfff, 0xbfff}, {0, 0xffff}, {0xffff, 0xffff}, {0xc000, 0}, {0xfffe, 0}, {0x321, 0x321}}) {
		var m [2][]byte
		for i := range m {
			m[i] = datagram(t, mad.Trap, uint64(i))
			m[i][1], m[i][2] = byte(mad.ClassSubnetLID), 7
		}
		b.inject(0, func(w *ci.WC, slot []byte) {
			w.SLID, w.SL, w.PathBits = v.lid, 5, 1
			w.SrcQP, w.PKeyIndex = 0, 0
			copy(slot[grhLen:], m[0])
		})
		b.deliver(0, m[1])
		r := recv(t, agent, "datagram on QP0")
		if v.want != 0 {
			kit.SameBytes(t, "datagram on QP0", r.MAD, m[0])
			kit.Equal(t, "Received.From", fmt.Sprintf("%+v", r.From), fmt.Sprintf("%+v", mads.Address{
				AV: ci.AVAttr{Port: b.port.Num, SL: 5, PathBits: 1, DLID: v.want}}))
			r = recv(t, agent, "next datagram on QP0")
		}
		kit.SameBytes(t, "next datagram on QP0", r.MAD, m[1])
	}
}

var MADGSI15 = datagrams.Must("MAD-GSI-15", "IBTA 13.5.3", "mads",
	"A datagram with another length, base version or class than its QP has is dropped, without a response.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.gsi.malformed",
	Title: "requests that are malformed, each before one that is answered",
	Run:   malformed,
}, MADGSI15)

func malformed(t *validate.T) {
	b := newBench(t, benchSetting{})
	agent := b.agent(vendor(mad.Send))
	b.agent(mads.AgentConfig{Class: mad.ClassSubnetAdmin, Version: 2, Methods: []mad.Method{mad.Send}})
	set := func(offset int, values ...byte) func(*ci.WC, []byte) {
		return func(_ *ci.WC, slot []byte) { copy(slot[grhLen+offset:], values) }
	}
	length := func(n uint32) func(*ci.WC, []byte) { return func(w *ci.WC, _ []byte) { w.Length = n } }
	variants := []struct {
		name   string
		qp     int
		change func(w *ci.WC, slot []byte)
	}{
		{"base version 0", 1, set(0, 0)}, {"base version 2", 1, set(0, 2)}, {"class 1", 1, set(1, 1)},
		{"class 0x81", 1, set(1, 0x81)}, {"295 bytes with the GRH", 1, length(295)}, {"297 bytes", 1, length(297)},
		{"no bytes", 1, length(0)}, {"256 bytes", 1, length(256)},
		{"base version 2 on QP0", 0, set(0, 2)}, {"class 9 on QP0", 0, set(1, 9)}, {"class 3 on QP0", 0, set(1, 3)},
	}
	hasQP0 := b.ca.Port.Link == ci.LinkInfiniBand && !t.Attr().HasHardwareAgents(b.port.Num)
	if hasQP0 {
		b.onQP0()
	}
	for _, v := range kit.Variants(t, "", variants) {
		if v.qp == 0 && !hasQP0 {
			continue
		}
		for _, method := range []mad.Method{mad.Send, mad.Get} { // for the agent, and to be answered
			m := datagram(t, method, 7)
			if v.qp == 0 {
				m[1], m[2] = byte(mad.ClassSubnetLID), 1
				binary.BigEndian.PutUint16(m[16:], mad.AttrNodeInfo)
			}
			b.sent()
			b.inject(v.qp, func(w *ci.WC, slot []byte) {
				copy(slot[grhLen:], m)
				v.change(w, slot)
			})
			b.settle(v.qp)
			kit.True(t, len(b.sent()) == 0, "response to "+v.name, "none", "one")
		}
	}
	b.deliver(1, datagram(t, mad.Send, 8))
	kit.Equal(t, "transaction ID of the first valid datagram", recv(t, agent, "valid datagram").Header().TID, 8)
	valid := datagram(t, mad.Get, 9)
	sent := b.exchange(func(_ *ci.WC, slot []byte) { copy(slot[grhLen:], valid) })
	kit.True(t, len(sent) == 1 && sent[0].header().Status == mad.StatusBadMethodAttribute,
		"response to a valid request",
		"one, status 0x000c", "%s", describeSent(sent))
}
