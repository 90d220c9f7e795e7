package ual

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// caAttr returns the attributes in a reply.
func caAttr(r *schema.CAAttr) *ci.CAAttr {
	a := &ci.CAAttr{GUID: r.GUID, SystemGUID: r.SystemGUID, Firmware: r.Firmware, Caps: r.Caps, MaxMRSize: r.MaxMRSize,
		VendorID: r.VendorID, DeviceID: r.DeviceID, Revision: r.Revision,
		MaxPDs: int(r.MaxPDs), MaxAVs: int(r.MaxAVs), MaxRDDs: int(r.MaxRDDs), MaxEECs: int(r.MaxEECs),
		MaxQPs: int(r.MaxQPs), MaxRawIPv6QPs: int(r.MaxRawIPv6QPs), MaxRawEtherQPs: int(r.MaxRawEtherQPs),
		MaxWRs: int(r.MaxWRs), MaxSGEs: int(r.MaxSGEs), MaxReadSGEs: int(r.MaxReadSGEs), MaxInline: int(r.MaxInline),
		MaxCQs: int(r.MaxCQs), MaxCQEs: int(r.MaxCQEs), MaxSRQs: int(r.MaxSRQs), MaxSRQWRs: int(r.MaxSRQWRs),
		MaxSRQSGEs: int(r.MaxSRQSGEs), MaxMRs: int(r.MaxMRs), MaxMWs: int(r.MaxMWs), MaxFMRs: int(r.MaxFMRs),
		MaxMapsPerFMR: int(r.MaxMapsPerFMR), MaxFastRegPages: int(r.MaxFastRegPages),
		MaxPartitions:  int(r.MaxPartitions),
		MaxMcastGroups: int(r.MaxMcastGroups), MaxMcastQPs: int(r.MaxMcastQPs),
		MaxQPsPerMcastGroup: int(r.MaxQPsPerMcastGroup),
		MaxRespRes:          int(r.MaxRespRes), MaxRespResPerQP: int(r.MaxRespResPerQP),
		MaxInitDepthPerQP: int(r.MaxInitDepth),
		Vectors:           int(r.NumVectors), AckDelay: r.AckDelay, Atomicity: r.Atomicity, PageSizes: r.PageSizes}
	for i := range r.Ports {
		a.Ports = append(a.Ports, portAttr(&r.Ports[i]))
	}
	return a
}

func portAttr(r *schema.PortAttr) ci.PortAttr {
	p := ci.PortAttr{GUID: r.GUID, MaxMsgSize: r.MaxMsgSize, Capability: r.Capability, LID: r.LID, SMLID: r.SMLID,
		PKeyErrors: r.PKeyErrors, QKeyErrors: r.QKeyErrors, Num: r.Num, Link: r.Link, State: r.State,
		PhysState: r.PhysState,
		MTU:       r.MTU, MaxMTU: r.MaxMTU, LMC: r.LMC, SMSL: r.SMSL, MaxVLs: r.MaxVLs, WidthActive: r.WidthActive,
		SpeedActive: r.SpeedActive, SpeedExt: r.SpeedExt, SubnetTimeout: r.SubnetTimeout,
		InitTypeReply: r.InitTypeReply, HardwareAgents: r.HardwareAgents != 0}
	for _, g := range r.GIDs {
		p.GIDs = append(p.GIDs, ci.GIDEntry{GID: g.GID, Type: g.Type, Interface: g.Interface})
	}
	for _, k := range r.PKeys {
		p.PKeys = append(p.PKeys, ci.PKey(k))
	}
	for _, m := range r.MTUs {
		p.MTUs = append(p.MTUs, ci.MTU(m))
	}
	return p
}

// handleOf returns the handle of an object of a CA.
func handleOf(c *CA, o ci.Object) (schema.Handle, bool) {
	type object interface{ identity() (*CA, schema.Handle) }
	x, ok := ci.As[object](o)
	if !ok {
		return 0, false
	}
	ca, h := x.identity()
	return h, ca == c
}

// handleAs returns the handle of an argument of one kind. Zero is any argument that is not an object of the CA: the
// daemon passes it on as nil, so that the driver's checks keep their order.
func handleAs[T interface {
	identity() (*CA, schema.Handle)
}](c *CA, o any) schema.Handle {
	x, ok := ci.As[T](o)
	if !ok {
		return 0
	}
	ca, h := x.identity()
	if ca != c {
		return 0
	}
	return h
}

func (c *CA) identity() (*CA, schema.Handle)    { return c, c.handle }
func (p *PD) identity() (*CA, schema.Handle)    { return p.ca, p.handle }
func (a *AV) identity() (*CA, schema.Handle)    { return a.pd.ca, a.handle }
func (q *CQ) identity() (*CA, schema.Handle)    { return q.ca, q.handle }
func (s *SRQ) identity() (*CA, schema.Handle)   { return s.ca, s.handle }
func (q *QP) identity() (*CA, schema.Handle)    { return q.ca, q.handle }
func (m *Mcast) identity() (*CA, schema.Handle) { return m.ca, m.handle }
func (m *MR) identity() (*CA, schema.Handle)    { return m.ca, m.handle }
func (w *MW) identity() (*CA, schema.Handle)    { return w.pd.ca, w.handle }
