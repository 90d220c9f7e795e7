package kit

import (
	"ciddk/ci"
)

// RTRTo takes a connected QP from Init to RTR. Its peer is not a QP of an adapter but, for example, the certifier: av,
// dest and psn are its address, its QPN and its first PSN.
func (q *QP) RTRTo(av ci.AVAttr, dest ci.QPN, psn ci.PSN) *QP {
	a := ci.QPAttr{
		State:   ci.QPRTR,
		Primary: ci.Path{AV: av, AckTimeout: q.ackTimeout()},
		MTU:     q.Config.MTU,
		DestNum: dest,
		RQPSN:   psn,
	}
	if q.Config.Type == ci.UC {
		return q.step(ci.QPFieldsUCRTR, a)
	}
	a.RespRes, a.MinRNRTimer = *q.Config.RespRes, q.Config.MinRNR
	return q.step(ci.QPFieldsRTR, a)
}

// AddressTo creates an address vector for a peer that is not a QP of an adapter, and sets AV and Dest.
func (e *End) AddressTo(av ci.AVAttr, dest ci.QPN, key ci.QKey) {
	v, err := e.PD.CreateAV(av)
	e.AV = created(e.QP.CA.T, v, err, "PD.CreateAV", "AV")
	e.Dest = ci.Dest{AV: e.AV, QPN: dest, QKey: key}
}

// AddressAt returns an address on the link for an address vector: a GID on Ethernet, a LID without a GRH on InfiniBand.
// local is the CA's GID on that link. ok is false if the GID table has no entry of the same address family.
func (ca *CA) AddressAt(gid ci.GID, lid ci.LID) (av ci.AVAttr, local ci.GID, ok bool) {
	av = ci.AVAttr{Port: ca.Port.Num, DLID: lid}
	if ca.Port.Link != ci.LinkEthernet {
		if len(ca.Port.GIDs) > 0 {
			local = ca.Port.GIDs[0].GID
		}
		return av, local, lid != 0
	}
	for _, typ := range []ci.GIDType{ci.GIDRoCEv2} {
		for i, e := range ca.Port.GIDs {
			if e.Type == typ && e.GID != (ci.GID{}) && v4(e.GID) == v4(gid) {
				av.Global, av.GRH = true, ci.GRH{DGID: gid, SGIDIndex: uint16(i), HopLimit: 64}
				return av, e.GID, true
			}
		}
	}
	return av, ci.GID{}, false
}
