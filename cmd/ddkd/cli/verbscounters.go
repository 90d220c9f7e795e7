package cli

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/uverbs"
)

// counters returns what an adapter has counted, for programs.
func (d *daemon) counters(guid ci.GUID) (list uverbs.Counters) {
	for _, a := range d.adapters.snapshot() {
		if a.hca.Info().GUID != guid {
			continue
		}
		if c, ok := ci.As[counter](a.hca); ok {
			list.Hardware = c.Counters()
		}
		c, ok := ci.As[portCounter](a.hca)
		for num := uint8(1); ok && num <= a.numPorts; num++ {
			n := c.PortCount(num)
			const unit = 4 // bytes of a unit of data [IBTA 16.1.3.5]
			list.Ports = append(list.Ports, map[string]uint64{
				"port_xmit_packets": n.XmitPkts, "port_xmit_data": n.XmitBytes / unit,
				"port_rcv_packets": n.RcvPkts, "port_rcv_data": n.RcvBytes / unit,
				"port_rcv_errors": n.RcvErrors, "port_xmit_discards": n.XmitDiscards,
			})
		}
	}
	return list
}
