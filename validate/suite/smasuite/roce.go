package smasuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Management of Ethernet ports: they have performance management and no subnet management. (IBTA A16.)
var ethernets = &validate.Area{Scope: req.Driver, Complete: func(c *validate.Case) {
	c.Feature = validate.FeatureSMA
	c.Needs.Links = []ci.Link{ci.LinkEthernet}
	c.Needs.Caps |= ci.CapLocalMAD
	c.Spoils = true
}}

var smaEth01 = ethernets.Must("SMA-Eth-01", "IBTA 16.1.3.5", perfVerb,
	"A Set of the counters of an Ethernet port writes the value of each selected counter, and no other counter. "+
		"A counter of PortCounters stops at its largest value.")

var (
	_ = ethernets.Case(validate.Case{
		ID:    "pma.ethernet.set",
		Title: "write each counter of PortCounters of an Ethernet port",
		Run:   perfSet,
	}, smaEth01)
	_ = ethernets.Case(validate.Case{
		ID:    "pma.ethernet.set-extended",
		Title: "write each counter of PortCountersExtended of an Ethernet port",
		Run:   perfSetExtended,
	}, smaEth01)
	_ = ethernets.Case(validate.Case{
		ID:    "pma.ethernet.stop",
		Title: "traffic with counters of an Ethernet port that are nearly at their largest values",
		Run:   perfStop,
	}, smaEth01)
)

var _ = ethernets.Add("pma.ethernet.traffic",
	"counters of an Ethernet port before and after known traffic", func(t *validate.T) {
		const leastWords = (12 + 4) / 4
		p := kit.RC(t)
		m := newQuietMeter(t, p.A.QP.CA)
		m.clear(0xffff) // a counter stops at its largest value
		before := m.counters()
		exchange(p)
		now := m.counters()
		kit.AtLeast(t, "packets sent", now.PortXmitPkts-before.PortXmitPkts, numMessages)
		kit.AtLeast(t, "PortXmitData", now.PortXmitData-before.PortXmitData, numMessages*(12+messageLen+4)/4)
		kit.AtLeast(t, "packets received", now.PortRcvPkts-before.PortRcvPkts, 1)
		kit.AtLeast(t, "PortRcvData", now.PortRcvData-before.PortRcvData, leastWords)
		// The size of a packet grows with its payload, word by word.
		sizes := map[int]uint32{}
		for _, n := range []int{0, 4, 256} {
			m.clear(0xffff)
			before := m.counters()
			for id := range uint64(numMessages) {
				p.B.Recv(p.B.RecvWR(id, 0, messageLen))
				p.A.Send(p.A.SendWR(id, 0, n))
				p.A.CQ.WaitOK(id)
				p.B.RecvCQ.WaitOK(id)
			}
			now := m.counters()
			if now.PortXmitPkts-before.PortXmitPkts != numMessages {
				t.Note("%d packets for %d messages: sizes are not compared", now.PortXmitPkts-before.PortXmitPkts,
					numMessages)
				return
			}
			sizes[n] = now.PortXmitData - before.PortXmitData
		}
		for _, n := range []int{4, 256} {
			kit.Equal(t, fmt.Sprintf("words of 20 packets with a payload of %d bytes, more than without a payload", n),
				sizes[n]-sizes[0], uint32(numMessages*n/4))
		}
	}, ethernets.Must("SMA-Eth-02", "IBTA 16.1.3.5", perfVerb,
		"The counters of an Ethernet port count the packets of the port, and at least the words from BTH to ICRC of "+
			"each."))

var _ = ethernets.Add("pma.ethernet.subnet", "subnet management of an Ethernet port", func(t *validate.T) {
	ca := kit.Open(t)
	execute := func(q *mad.SMP) (r mad.SMP, answered bool) {
		var in, out ci.MAD
		q.Put(in[:])
		for i := range out {
			out[i] = 0xa5
		}
		kit.OK(t, ca.LocalMAD(ca.Port.Num, nil, &in, &out), "CA.LocalMAD of "+name(q))
		r.Parse(out[:])
		return r, out != ci.MAD{}
	}
	for i, class := range kit.Variants(t, "class", []mad.Class{mad.ClassSubnetLID, mad.ClassSubnetDirected}) {
		q := &mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: class,
			ClassVersion: mad.ClassVersionSubnet, TID: firstTID, Attribute: mad.AttrNodeInfo, Modifier: 7}}
		for _, method := range []mad.Method{mad.Get, mad.Set} {
			q.Method = method
			r, answered := execute(q)
			kit.True(t, answered, "response to "+name(q), "a response", "none")
			want := q.Header
			want.Method, want.Status = mad.GetResp, mad.StatusBadVersion
			if i == 1 {
				want.Status |= mad.StatusDirection
			}
			if r.Status&^mad.StatusDirection != mad.StatusBadVersion {
				isRead := method == mad.Get && r.Status&^mad.StatusDirection == mad.StatusOK
				isReadOnly := method == mad.Set && r.Status&^mad.StatusDirection == mad.StatusBadMethodAttribute
				if isRead || isReadOnly {
					t.Note("the adapter executes subnet management of an Ethernet port")
					want.Status = r.Status&^mad.StatusDirection | want.Status&mad.StatusDirection
				}
			}
			kit.Equal(t, "header of the response to "+name(q), fmt.Sprintf("%+v", r.Header), fmt.Sprintf("%+v", want))
		}
		for _, method := range []mad.Method{mad.GetResp, mad.TrapRepress, mad.Trap, mad.Send} {
			q.Method = method
			_, answered := execute(q)
			kit.True(t, !answered, "response to "+name(q), "none", "a response")
		}
	}
	var in, out ci.MAD
	in[0], in[1], in[2] = mad.BaseVersion, byte(mad.ClassPerformance), mad.ClassVersionPerformance
	binary.BigEndian.PutUint64(in[8:], firstTID)
	for _, method := range []mad.Method{mad.Trap, mad.TrapRepress, mad.Send, mad.GetResp} {
		in[3], out = byte(method), ci.MAD{0: 0xa5}
		kit.OK(t, ca.LocalMAD(ca.Port.Num, nil, &in, &out), "CA.LocalMAD of performance management")
		kit.True(t, out == ci.MAD{}, "response to "+method.String()+" of performance management", "none", "%x", out[:8])
	}
}, ethernets.Must("SMA-Eth-03", "CI context", verb,
	"A request of subnet management for an Ethernet port is answered with its header, as one of an unsupported "+
		"class unless the adapter executes it. What needs no response has none."))
