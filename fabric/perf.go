package fabric

import (
	"ciddk/ci"
	"ciddk/sma/pma"
)

// supportedCounters are those that the ports of a fabric have. Links have no errors of their own.
var supportedCounters = pma.SetOf(pma.XmitData, pma.RcvData, pma.XmitPkts, pma.RcvPkts, pma.UnicastXmitPkts,
	pma.UnicastRcvPkts, pma.MulticastXmitPkts, pma.MulticastRcvPkts, pma.LinkDowned, pma.RcvErrors,
	pma.RcvSwitchRelayErrors, pma.XmitDiscards, pma.XmitConstraintErrors, pma.RcvConstraintErrors, pma.VL15Dropped)

// performance executes a datagram of performance management, and makes it the response. It reports whether one is due.
func (n *node) performance(m *ci.MAD) bool { return n.perf.Execute(m) }

// Counters implements pma.Source.
func (n *node) Counters(num uint8, v *pma.Values) bool {
	p := n.port(num)
	if p == nil || num == 0 {
		return false
	}
	c := &p.count
	x, r := c.xmitPackets.Load(), c.rcvPackets.Load()
	xm, rm := c.xmitMulticast.Load(), c.rcvMulticast.Load()
	*v = pma.Values{
		pma.XmitData: c.xmitBytes.Load() / 4, pma.RcvData: c.rcvBytes.Load() / 4, pma.XmitPkts: x, pma.RcvPkts: r,
		pma.UnicastXmitPkts: x - min(x, xm), pma.UnicastRcvPkts: r - min(r, rm),
		pma.MulticastXmitPkts: xm, pma.MulticastRcvPkts: rm,
		pma.LinkDowned: c.linkDowned.Load(), pma.RcvErrors: c.rcvErrors.Load(),
		pma.RcvSwitchRelayErrors: c.relayErrors.Load(), pma.XmitDiscards: c.xmitDiscards.Load(),
		pma.XmitConstraintErrors: c.xmitConstraint.Load(), pma.RcvConstraintErrors: c.rcvViolation.Load(),
		pma.VL15Dropped: c.vl15Dropped.Load(),
	}
	return true
}
