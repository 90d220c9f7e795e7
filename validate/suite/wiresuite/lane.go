package wiresuite

import (
	"bytes"
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// lanes are the cases of subnet management on its lane, with ports whose agents are in the adapter. (IBTA 7.6.4, 13.5.)
var lanes = area()

var _ = lanes.Add("wire.smp.lane", "requests of subnet management on each kind of lane", func(t *validate.T) {
	s := open(t)
	s.needInfiniBand()
	s.needBytes()
	if !s.ca.Port.HardwareAgents {
		t.Skip("the consumer of QP0 has the agent of this port")
	}
	p := s.raw(kit.Type(ci.UD)) // not connected: it serves to form packets
	request := func(tid uint64) []byte {
		m := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
			ClassVersion: mad.ClassVersionSubnet, Method: mad.Get, TID: tid, Attribute: mad.AttrNodeInfo}}
		b := make([]byte, mad.Size)
		m.Put(b)
		return b
	}
	toQP0 := func(vl uint8) twist {
		return func(o *outgoing) {
			o.vl, o.DETH = vl, wire.DETH{}
			o.BTH.DestQP, o.BTH.PKey = 0, 0xffff
		}
	}
	for i, x := range kit.Variants(t, "", []struct {
		what string
		op   wire.Opcode
		vl   uint8
		size int
	}{
		{"on VL 0", wire.UDSendOnly, 0, mad.Size},
		{"on VL 1", wire.UDSendOnly, 1, mad.Size},
		{"on VL 14", wire.UDSendOnly, 14, mad.Size},
		{"of 252 bytes", wire.UDSendOnly, 15, mad.Size - 4},
		{"of service RC", wire.RCSendOnly, 15, mad.Size},
	}) {
		bad, good := uint64(2*i+1), uint64(2*i+2)
		p.stray(x.op, request(bad)[:x.size], toQP0(x.vl))
		p.stray(wire.UDSendOnly, request(good), toQP0(15))
		b, err := s.w.Recv(t.Context())
		if err != nil {
			t.Failf("answer to the request after one "+x.what, "a response", "%v", err)
		}
		r, err := take(&s.info, b)
		what := "answer to the request after one " + x.what
		if err != nil || len(r.Payload) != mad.Size {
			t.Failf(what, "a datagram of 256 bytes", "%v, %v", r, err)
		}
		var m mad.SMP
		m.Parse(r.Payload)
		kit.Equal(t, "TID of the "+what, m.TID, good)
		kit.Equal(t, "method of the "+what, m.Method, mad.GetResp)
		kit.Equal(t, "lane of the "+what, b[0]>>4, 15)
		kit.Equal(t, "QPs of the "+what, fmt.Sprint(r.BTH.DestQP, r.DETH.SrcQP), "0 0")
		kit.Equal(t, "source LID of the "+what, ci.LID(b[6])<<8|ci.LID(b[7]), s.ca.Port.LID)
		guid := make([]byte, 8)
		for k := range guid {
			guid[k] = byte(t.Attr().GUID >> (56 - 8*k))
		}
		kit.True(t, bytes.Contains(m.Data[:], guid), "NodeInfo of the "+what, "the GUID of the node", "another one")
	}
}, lanes.Must("WIRE-Smp-01", "IBTA 7.6", "VL 15; 13.5",
	"A port that has the agent of subnet management answers datagrams to QP0 on VL 15, and on VL 15. It drops "+
		"those that come on a data VL, and packets of other services or lengths."))
