package reference

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
)

// agent executes management datagrams on the HCA's ports (SAS: ci_local_mad). It is the performance management agent of
// all ports, and passes subnet management on to ports that have an agent of their own (rvt.SMAPort).
type agent struct {
	perf perfAgent
	hca  *HCA
}

// localMAD executes one datagram on a port. It overwrites out with the response, or with zeros where none is due.
func (a *agent) localMAD(num uint8, _ *ci.AVAttr, in, out *ci.MAD) error {
	if mad.Class(in[1]) == mad.ClassPerformance {
		a.performance(in, out)
		return nil
	}
	if p, ok := ci.As[rvt.SMAPort](a.hca.cfg.Ports[num-1]); ok {
		p.SubnetMAD(in, out)
		return nil
	}
	reject(in, out)
	return nil
}

// reject responds that the port does not support the class.
func reject(in, out *ci.MAD) {
	var s mad.SMP
	s.Parse(in[:])
	*out = ci.MAD{}
	if s.Method&mad.ResponseMask != 0 || s.Method == mad.TrapRepress || s.Method == mad.Trap || s.Method == mad.Send {
		return
	}
	s.Method, s.Status = mad.GetResp, mad.StatusBadVersion
	if s.Class == mad.ClassSubnetDirected {
		s.Status |= mad.StatusDirection
	}
	s.Put(out[:])
}
