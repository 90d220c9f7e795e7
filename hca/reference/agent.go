package reference

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/sma/pma"
)

// agent executes management datagrams on the HCA's ports (SAS: ci_local_mad). Performance management is that of package
// pma, on the engine's counters. Subnet management is executed by ports that have it (rvt.SMAPort).
type agent struct {
	perf *pma.Agent
	hca  *HCA
}

func newAgent(h *HCA) *agent {
	return &agent{hca: h, perf: pma.New(pma.Config{Source: perfSource{h}, NumPorts: uint8(len(h.cfg.Ports)),
		Supported: perfCounters})}
}

// localMAD executes one datagram on a port. It overwrites out with the response, or with zeros where none is due.
func (a *agent) localMAD(num uint8, _ *ci.AVAttr, in, out *ci.MAD) error {
	if mad.Class(in[1]) == mad.ClassPerformance {
		*out = *in
		if !a.perf.Execute(out) {
			*out = ci.MAD{}
		}
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
	var h mad.Header
	h.Parse(in[:])
	*out = ci.MAD{}
	if h.Method&mad.ResponseMask != 0 || h.Method == mad.TrapRepress || h.Method == mad.Trap || h.Method == mad.Send {
		return
	}
	*out = *in
	h.Method, h.Status = mad.GetResp, mad.StatusBadVersion
	if h.Class == mad.ClassSubnetDirected {
		h.Status |= mad.StatusDirection
	}
	h.Put(out[:])
}
