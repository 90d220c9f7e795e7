package direct

import (
	"slices"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/sma"
	"ciddk/wire"
)

// node is the subnet management of a port: the attributes, and the agent from Start on. It is replaced, never changed.
type node struct {
	*sma.SoftNode
	agent *sma.Agent // nil before Start
	num   uint8
}

// newNode returns the node of a port whose number and whose HCA are known, or of one before Start.
func (p *Port) newNode(num uint8, n rvt.Node, info mad.PortInfo) (*node, error) {
	guid := p.config.GUID
	if guid == 0 {
		guid = n.GUID + ci.GUID(num)
	}
	soft, err := sma.NewSoftNode(sma.SoftConfig{Type: mad.NodeCA, GUID: n.GUID, SystemGUID: n.SystemGUID,
		VendorID: n.VendorID, DeviceID: n.DeviceID, Revision: uint32(n.Revision), Description: n.Description,
		NumPorts: max(n.NumPorts, num), Hardware: (*hardware)(p),
		Ports: []sma.SoftPort{{Num: num, GUID: guid, Aliases: p.config.Aliases, Info: info, NumPKeys: numPKeys,
			PKeys: p.config.PKeys}}})
	if err != nil {
		return nil, err
	}
	return &node{SoftNode: soft, num: num}, nil
}

// manage starts the agent of the port.
func (p *Port) manage(c *rvt.PortContext) error {
	before := p.node.Load()
	info, _ := before.PortInfo(before.num)
	n, err := p.newNode(c.Num, c.Node, info)
	if err != nil {
		return err
	}
	if p.rise == ci.PortActive {
		n.Assign(c.Num, ci.LID(info.LID), info.LMC, ci.LID(info.MasterSMLID))
	}
	agent := sma.Config{Node: n.SoftNode, Clock: c.Clock, FirstTID: uint64(c.Node.GUID) << 16}
	if p.config.HardwareAgents { // otherwise the access layer makes the traps from the port's events
		agent.SendTrap = p.sendTrap
	}
	n.agent = sma.New(agent)
	p.node.Store(n)
	return nil
}

// KeyViolation counts a packet with a wrong key. With Config.HardwareAgents, it sends a trap. It implements
// rvt.ViolationPort.
func (p *Port) KeyViolation(v ci.KeyViolation, qkey bool) {
	n, t := p.node.Load(), sma.KeyTrap(&v)
	n.CountKeyViolation(n.num, &t, qkey)
}

// SetSystemGUID changes NodeInfo.SystemImageGUID. With Config.HardwareAgents, a change sends a trap. It implements
// rvt.SystemGUIDPort.
func (p *Port) SetSystemGUID(g ci.GUID) { p.node.Load().SetSystemGUID(g) }

// SubnetMAD executes a subnet management datagram. It implements rvt.SMAPort.
func (p *Port) SubnetMAD(in, out *ci.MAD) {
	n := p.node.Load()
	*out = *in
	if !n.agent.ExecuteLocal(n.num, 0, out) {
		*out = ci.MAD{}
	}
}

// TrustedMAD is SubnetMAD without a check of the M_Key. It implements rvt.TrustedSMAPort.
func (p *Port) TrustedMAD(in, out *ci.MAD) {
	n := p.node.Load()
	*out = *in
	if !n.agent.ExecuteTrusted(n.num, out) {
		*out = ci.MAD{}
	}
}

// hardware is the port as its node controls it.
type hardware Port

// Train takes the link down, and up again unless it is to stay down: its other end is always there. It implements
// sma.Hardware.
func (h *hardware) Train(port uint8, phys uint8) {
	if n := (*Port)(h).node.Load(); phys == sma.PhysPolling && h.cable.Load() {
		n.LinkUp(port, sma.Link{})
	}
}

// Changed raises the port's events. It implements sma.Hardware.
func (h *hardware) Changed(_ uint8, c sma.Change) {
	if !h.started.Load() {
		return
	}
	if c.Has(sma.ChangeLID) {
		h.link.refresh()
	}
	c.Events(h.recv.PortEvent)
}

// sendTrap sends a trap of the port's agent to the subnet manager.
func (p *Port) sendTrap(_ uint8, to sma.Manager, m *ci.MAD) { p.sendSMP(to, m) }

// sendSMP sends a datagram of the port's agent.
func (p *Port) sendSMP(to sma.Manager, m *ci.MAD) {
	r, err := p.Route(&ci.AVAttr{DLID: to.LID, SL: to.SL}, rvt.Flow{Datagram: true})
	if err != nil {
		return
	}
	p.Send([]rvt.Packet{{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, N: 1, MTU: mad.Size,
		Len: mad.Size, PKey: defaultPKey, Payload: [][]byte{slices.Clone(m[:])}, Route: r}})
}

const defaultPKey ci.PKey = 0xffff
