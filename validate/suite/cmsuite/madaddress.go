package cmsuite

import (
	"slices"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Addresses of datagrams: those that cannot be valid, and the route of the response.

var _ = datagrams.Add("mad.address.invalid", "datagrams to addresses that cannot be valid", func(t *validate.T) {
	a, b := sides(t)
	from, to := a.agent(vendor()), b.agent(vendor(mad.Send))
	port := a.ca.Port
	isIB := port.Link == ci.LinkInfiniBand
	noKey := slices.IndexFunc(port.PKeys, func(k ci.PKey) bool { return k&0x7fff == 0 })
	noGID := slices.IndexFunc(port.GIDs, func(e ci.GIDEntry) bool { return e.GID == ci.GID{} })
	global := func(av *ci.AVAttr) {
		if !av.Global {
			av.Global, av.GRH = true, ci.GRH{DGID: b.ca.Port.GIDs[0].GID, HopLimit: 1}
		}
	}
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		skip   bool
		change func(*mads.Address)
		want   ci.Status
	}{
		{name: "another port", change: func(d *mads.Address) { d.AV.Port = port.Num + 1 }, want: ci.InvalidPort},
		{name: "a QP number of 25 bits", change: func(d *mads.Address) { d.QPN = 1 << 24 }},
		{name: "a P_Key index at the end of the table",
			change: func(d *mads.Address) { d.PKeyIndex = uint16(len(port.PKeys)) }},
		{name: "an empty P_Key entry", skip: noKey < 0, change: func(d *mads.Address) { d.PKeyIndex = uint16(noKey) }},
		{name: "no GRH on Ethernet", skip: isIB, change: func(d *mads.Address) { d.AV.Global = false }},
		{name: "a GID index at the end of the table",
			change: func(d *mads.Address) { global(&d.AV); d.AV.GRH.SGIDIndex = uint16(len(port.GIDs)) }},
		{name: "an empty GID entry", skip: noGID < 0,
			change: func(d *mads.Address) { global(&d.AV); d.AV.GRH.SGIDIndex = uint16(noGID) }},
		{name: "a destination GID of zero",
			change: func(d *mads.Address) { global(&d.AV); d.AV.GRH.DGID = ci.GID{} }},
		{name: "neither LID nor GRH", skip: !isIB,
			change: func(d *mads.Address) { d.AV.Global, d.AV.DLID = false, 0 }},
	}) {
		if v.skip {
			continue
		}
		if v.want == 0 {
			v.want = ci.InvalidParameter
		}
		d := a.to(b)
		v.change(&d)
		err := from.Send(&mads.Message{To: d, MAD: datagram(t, mad.Send, 1)})
		kit.WantExactly(t, err, "mads.Agent.Send to "+v.name, v.want)
		good := datagram(t, mad.Send, 2)
		kit.OK(t, from.Send(&mads.Message{To: a.to(b), MAD: good}), "mads.Agent.Send after "+v.name)
		kit.SameBytes(t, "datagram after "+v.name, recv(t, to, "datagram after "+v.name).MAD, good)
	}
	none(t, to, "datagrams to addresses that are not valid")
}, datagrams.Must("MAD-Addr-01", "CI access layer", "mads, Agent.Send, Do",
	"A datagram whose address cannot be valid is rejected with InvalidParameter, or InvalidPort for another port "+
		"than the agent's. Nothing is sent, and later datagrams are not affected."))

var _ = datagrams.Needing(validate.Needs{Links: []ci.Link{ci.LinkInfiniBand}}).Add("mad.address.grh",
	"the source address of datagrams with a GRH", addressGRH,
	datagrams.Must("MAD-Addr-02", "IBTA 13.5.4.2", "mads, Received.From",
		"The response address of a datagram with a GRH has the GIDs exchanged, the flow label and traffic class of "+
			"the datagram, and hop limit 255. It has the service level of the datagram."))

func addressGRH(t *validate.T) {
	a, b := sides(t)
	from, to := a.agent(vendor(mad.Send)), b.agent(vendor(mad.Send))
	for _, label := range kit.Variants(t, "flow label", []uint32{0, 1, 0x80, 0x5a00, 0x10000, 0xf0000, 0xfffff}) {
		class := uint8(label>>4) ^ 0xa5
		d := a.to(b)
		d.AV.Global = true
		d.AV.GRH = ci.GRH{DGID: b.ca.Port.GIDs[0].GID, FlowLabel: label, HopLimit: 1, TrafficClass: class}
		kit.OK(t, from.Send(&mads.Message{To: d, MAD: datagram(t, mad.Send, 1)}), "mads.Agent.Send with a GRH")
		r := recv(t, to, "datagram with a GRH")
		kit.True(t, r.GRH && r.From.AV.Global, "GRH of the datagram", "there", "not present")
		kit.Equal(t, "GIDs of the datagram", [2]ci.GID{r.SGID, r.DGID},
			[2]ci.GID{a.ca.Port.GIDs[0].GID, b.ca.Port.GIDs[0].GID})
		kit.Equal(t, "GRH of the response", r.From.AV.GRH, ci.GRH{DGID: a.ca.Port.GIDs[0].GID, FlowLabel: label,
			HopLimit: 255, TrafficClass: class})
		kit.Equal(t, "LID and service level of the response", [2]uint16{uint16(r.From.AV.DLID), uint16(r.From.AV.SL)},
			[2]uint16{uint16(a.ca.Port.LID), uint16(d.AV.SL)})
		kit.Equal(t, "Q_Key of the response", r.From.QKey, ci.QKey(mad.QKeyGSI))
		back := datagram(t, mad.Send, 2)
		kit.OK(t, to.Send(&mads.Message{To: r.From, MAD: back}), "mads.Agent.Send to the source")
		kit.SameBytes(t, "datagram sent back", recv(t, from, "datagram sent back").MAD, back)
	}
}
