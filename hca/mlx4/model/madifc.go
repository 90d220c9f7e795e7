package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/sma/pma"
)

// madIFC executes a management datagram on the agents of a port.
func (c *command) madIFC() prm.Status {
	p := c.port(uint8(c.mod))
	if p == nil {
		return prm.BadParam
	}
	b, ok := c.inbox(mad.Size)
	if !ok {
		return prm.BadParam
	}
	in, out := ci.MAD(b), ci.MAD{}
	switch class := mad.Class(in[1]); {
	case class == mad.ClassPerformance:
		out = in
		if !c.perf.Execute(&out) {
			out = ci.MAD{}
		}
	case p.isEthernet():
		c.nodeMAD(p, &in, &out)
	case class == mad.ClassSubnetLID || class == mad.ClassSubnetDirected:
		agent, ok := ci.As[rvt.SMAPort](p.link)
		if !ok {
			return prm.BadParam
		}
		if t, ok := ci.As[rvt.TrustedSMAPort](p.link); ok && c.opMod&prm.MADIgnoreMKey != 0 {
			t.TrustedMAD(&in, &out)
			break
		}
		agent.SubnetMAD(&in, &out)
	default:
		reject(&in, &out)
	}
	if out == (ci.MAD{}) {
		return prm.BadPkt // dropped: there is no response
	}
	c.describe(out[:])
	return c.outbox(out[:])
}

// reject responds that the port does not support the class. What is no request has no response.
func reject(in, out *ci.MAD) {
	var h mad.Header
	h.Parse(in[:])
	if h.Response() || h.Method == mad.Trap || h.Method == mad.Send {
		*out = ci.MAD{}
		return
	}
	*out = *in
	h.Method, h.Status = mad.GetResp, mad.StatusBadVersion
	if h.Class == mad.ClassSubnetDirected {
		h.Status |= mad.StatusDirection
	}
	h.Put(out[:])
}

// perfCounters are the counters that the model has.
var perfCounters = pma.SetOf(pma.XmitData, pma.RcvData, pma.XmitPkts, pma.RcvPkts, pma.RcvErrors, pma.XmitDiscards)

// perfSource is the pma.Source of a model.
type perfSource struct{ m *Model }

// Counters implements pma.Source: data in units of four bytes.
func (s perfSource) Counters(num uint8, v *pma.Values) bool {
	if s.m.port(num) == nil {
		return false
	}
	const lrh = 8
	c := s.m.engine.PortCount(num)
	v[pma.XmitData] = (c.XmitBytes + lrh*c.XmitPkts) / 4
	v[pma.RcvData] = (c.RcvBytes + lrh*c.RcvPkts) / 4
	v[pma.XmitPkts], v[pma.RcvPkts] = c.XmitPkts, c.RcvPkts
	v[pma.RcvErrors], v[pma.XmitDiscards] = c.RcvErrors, c.XmitDiscards
	return true
}
