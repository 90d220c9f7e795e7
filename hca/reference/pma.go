package reference

import (
	"slices"

	"ciddk/ci"
	"ciddk/sma/pma"
)

// The performance management agent serves the HCA's ports on both link layers. Its values are the engine's counters for
// each port (rvt.PortCount). A request to any port may select any port of the HCA by its PortSelect field.
//
// The data counters count the bytes from the start of the packet up to the VCRC, exclusive. For RoCE packets they count
// the IP and UDP headers, which take the places of GRH and LRH. They do not count the Ethernet header and its FCS.

// perfCounters are the counters that the engine has.
var perfCounters = pma.SetOf(pma.XmitData, pma.RcvData, pma.XmitPkts, pma.RcvPkts, pma.RcvErrors, pma.XmitDiscards)

// perfSource is the pma.Source of an HCA.
type perfSource struct{ h *HCA }

// Counters implements pma.Source: data in units of four bytes.
func (s perfSource) Counters(num uint8, v *pma.Values) bool {
	if num == 0 || int(num) > len(s.h.cfg.Ports) {
		return false
	}
	c := s.h.PortCount(num)
	link := linkHeader(s.h.cfg.Ports[num-1].Attr())
	v[pma.XmitData] = (c.XmitBytes + link*c.XmitPkts) / 4
	v[pma.RcvData] = (c.RcvBytes + link*c.RcvPkts) / 4
	v[pma.XmitPkts], v[pma.RcvPkts] = c.XmitPkts, c.RcvPkts
	v[pma.RcvErrors], v[pma.XmitDiscards] = c.RcvErrors, c.XmitDiscards
	return true
}

// linkHeader returns the size of the headers before the BTH, which the engine does not count: an LRH, or IP and UDP
// headers.
func linkHeader(a ci.PortAttr) uint64 {
	const lrh, udp, ip4, ip6 = 8, 8, 20, 40
	switch {
	case a.Link == ci.LinkInfiniBand:
		return lrh
	case slices.ContainsFunc(a.GIDs, func(e ci.GIDEntry) bool { return isIPv4(e.GID) }):
		return ip4 + udp
	}
	return ip6 + udp
}

func isIPv4(g ci.GID) bool { return [12]byte(g[:12]) == [12]byte{10: 0xff, 11: 0xff} }
