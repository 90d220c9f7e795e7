package cmsuite

import (
	"slices"
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = adapters.Case(validate.Case{
	ID: "cm.adapter.partitions",
	Title: "requests whose alternate path leads to another port, which does not have the partition of the " +
		"connection, or has it at another place",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   adapterPartitions,
}, CMAdapter03)

func adapterPartitions(t *validate.T) {
	// The MAD services do not begin on an iWARP port. The driver has none that the case can have them begin on.
	table, isWARP := []ci.PKey{memberBit | 1}, true // of a port beside those of the driver
	gid := ci.GID{0xfe, 0x80, 8: 0x77, 15: 0x99}
	const lid ci.LID = 0x345
	var key ci.PKey
	a, b, d := changingSides(t, func(attr *ci.CAAttr) {
		p := attr.Ports[0]
		p.Num, p.LID, p.LMC = uint8(len(attr.Ports)+1), lid, 0
		p.GIDs, p.PKeys = []ci.GIDEntry{{GID: gid, Type: p.GIDs[0].Type}}, slices.Clone(table)
		if isWARP {
			p.Link = ci.LinkIWARP
		}
		attr.Ports = append(attr.Ports, p)
	})
	if key = partition(a.ca.Port) | memberBit; key == memberBit {
		t.Skip("the port has no partition")
	}
	other := a.absentPKey() | memberBit
	g := newRigOn(a, b)
	adapter, err := a.al.Adapter(a.port.CA)
	kit.OK(t, err, "AL.Adapter")
	change := func(keys ...ci.PKey) {
		d.mu.Lock()
		table, isWARP = keys, false
		d.mu.Unlock()
		adapter.Poll()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			list := adapter.Attr().Ports
			if slices.Equal(list[len(list)-1].PKeys, keys) {
				return
			}
			select {
			case <-tick.C:
			case <-t.Context().Done():
				t.Failf("AL.Adapter.Attr after Poll", "another port", "%+v", list)
			}
		}
	}
	request := func(q *mad.REQ) {
		q.PKey = uint16(key)
		q.Alternate = otherPort(q.Primary)
		q.Alternate.RemoteGID = gid
		if q.Alternate.SubnetLocal {
			q.Alternate.RemoteLID = uint16(lid)
		}
	}
	change(other)
	q := g.newREQ()
	request(q)
	g.send(1, q)
	kit.Equal(t, "messages after a REQ whose alternate path leads to a port without the partition",
		texts(g.sync("after a REQ")), "REJ of REQ, "+mad.RejUnsupported.String())
	change(other, key)
	k := g.requestWith(request)
	alt := k.Request().Alternate
	kit.True(t, alt != nil, "alternate path of a REQ", "a path", "none")
	kit.Equal(t, "port of the alternate path of a REQ", int(alt.Port.Num), len(adapter.Attr().Ports))
	accept := g.y.acceptance(nil)
	accept.Failover = mad.FailoverAccepted
	kit.OK(t, k.StartAccept(t.Context(), accept, func(error) {}), "cm.Conn.StartAccept")
	g.with(k, "RTU")
	_, rts := (&end{End: g.y.End, side: a, Conn: k}).attrOf(ci.QPRTS)
	kit.Equal(t, "port and index of the P_Key of the alternate path", [2]int{int(rts.Alternate.AV.Port),
		int(rts.Alternate.PKeyIndex)}, [2]int{len(adapter.Attr().Ports), 1})
}
