package direct

import (
	"bytes"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/sma"
	"ciddk/wire"
)

// consume is the agent of a port with Config.HardwareAgents: it answers the SMPs that are for it, moves the other
// packets to the front, and returns their number.
func (p *Port) consume(pkts []rvt.Packet) int {
	n := 0
	for i := range pkts {
		if x := &pkts[i]; x.DestQP != 0 || x.Service != wire.UD || x.Len != mad.Size || !p.answer(x) {
			pkts[n] = pkts[i]
			n++
		}
	}
	return n
}

// answer executes an SMP and sends the response. It reports whether the SMP is not to be passed up.
func (p *Port) answer(x *rvt.Packet) bool {
	n := p.node.Load()
	m := ci.MAD(bytes.Join(x.Payload, nil)[:mad.Size])
	switch v := n.agent.Receive(n.num, x.Src.LID, &m); v.Action {
	case sma.Deliver:
		return false
	case sma.Reply:
		to := sma.Manager{LID: permissiveLID, SL: x.SL}
		if v.ByLID {
			to.LID = x.Src.LID
		}
		p.sendSMP(to, &m)
	}
	return !p.config.PassConsumed
}
