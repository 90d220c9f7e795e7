package sma

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/mad"
)

// A SoftNode is a Node whose attributes are in memory: of an adapter, of some ports of an adapter, or of a switch. It
// implements KeyedNode, Notifier and TrapSource. What follows from a change is up to its Hardware.
//
// All methods may be called concurrently. Those that a forwarding path needs take no lock: State, LIDs, Route,
// MulticastPorts, VL, PKeys.
type SoftNode struct {
	c       SoftConfig
	hw      Hardware
	sets    sync.Mutex // held during a whole Set, with the calls of the hardware
	mu      sync.Mutex // guards the fields below, and what ports say about it
	ports   []softPort
	first   uint8
	sys     ci.GUID
	name    [mad.SMPDataLen]byte
	sw      mad.SwitchInfo
	trap    func(port uint8, n *mad.Notice) // or nil
	linear  words                           // 8 bits for each LID; NoPort discards
	mcast   []words                         // by position: 16 bits for each multicast LID
	sltovl  []atomic.Uint64                 // by input port and output port, on an adapter only one
	linTop  atomic.Uint32
	mcTop   atomic.Uint32
	columns int // of sltovl
}

// softPort is a port. SoftNode.mu guards info, guids and vlarb; the rest is read without it.
type softPort struct {
	num   uint8
	kind  PortKind
	info  mad.PortInfo
	guids []uint64
	vlarb *[4]mad.VLArbBlock // nil: zeros
	led   bool

	unmanaged bool // MasterSMLID does not come from a subnet manager

	pkeys  PKeyTable
	state  atomic.Uint32 // logical state
	where  atomic.Uint32 // LID << 8 | LMC
	mkey   atomic.Uint64
	shield atomic.Uint32 // M_Key lease << 8 | protection level
}

var _ interface {
	KeyedNode
	Notifier
	TrapSource
} = (*SoftNode)(nil)

// NewSoftNode returns a node. Errors: a field of c that is out of range.
func NewSoftNode(c SoftConfig) (*SoftNode, error) {
	c.setDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	n := &SoftNode{c: c, hw: c.Hardware, first: c.Ports[0].Num, sys: c.SystemGUID, sw: c.Switch}
	copy(n.name[:], c.Description)
	n.ports = make([]softPort, len(c.Ports))
	for i := range c.Ports {
		n.ports[i].init(&c, &c.Ports[i])
	}
	n.columns = 1
	if c.Type == mad.NodeSwitch {
		n.makeTables()
	}
	n.sltovl = make([]atomic.Uint64, n.columns*n.columns)
	for i := range n.sltovl {
		n.sltovl[i].Store(initialSLtoVL)
	}
	return n, nil
}

// initialSLtoVL maps all service levels to VL 0.
const initialSLtoVL = 0

// makeTables allocates the forwarding tables of a switch.
func (n *SoftNode) makeTables() {
	const linearBlock, mcastBlock = 64, 64
	n.columns = int(n.c.NumPorts) + 1
	n.linear = newWords((int(n.sw.LinearFDBCap) + linearBlock - 1) / linearBlock * linearBlock)
	for i := range n.linear {
		n.linear[i].Store(1<<64 - 1) // NoPort
	}
	bytes := (2*int(n.sw.McastFDBCap) + mcastBlock - 1) / mcastBlock * mcastBlock
	for range int(n.c.NumPorts)/16 + 1 {
		n.mcast = append(n.mcast, newWords(bytes))
	}
	n.linTop.Store(uint32(n.sw.LinearFDBTop))
	n.mcTop.Store(uint32(n.sw.McastFDBTop))
}

func (p *softPort) init(c *SoftConfig, s *SoftPort) {
	p.num, p.kind, p.info = s.Num, c.kind(s.Num), s.Info
	p.pkeys = newPKeyTable(s.NumPKeys)
	for b := 0; 32*b < len(s.PKeys); b++ {
		var block mad.PKeyBlock
		for i := 32 * b; i < min(len(s.PKeys), 32*b+32); i++ {
			block[i-32*b] = uint16(s.PKeys[i])
		}
		var data [64]byte
		block.Put(data[:])
		p.pkeys.w.put(64*b, data[:])
	}
	if p.kind.hasAddress() {
		p.guids = make([]uint64, p.info.GUIDCap)
		p.guids[0] = uint64(s.GUID)
		for i, g := range s.Aliases {
			p.guids[i+1] = uint64(g)
		}
	}
	p.publish()
}

// publish publishes what is read without the lock. The caller holds SoftNode.mu, or is alone.
func (p *softPort) publish() {
	p.state.Store(uint32(p.info.State))
	p.where.Store(uint32(p.info.LID)<<8 | uint32(p.info.LMC))
	p.mkey.Store(p.info.MKey)
	p.shield.Store(uint32(p.info.MKeyLease)<<8 | uint32(p.info.MKeyProtect))
}

// port returns a port, or nil.
func (n *SoftNode) port(num uint8) *softPort {
	if i := int(num) - int(n.first); i >= 0 && i < len(n.ports) {
		return &n.ports[i]
	}
	return nil
}

// keyPort returns the port whose M_Key and manager serve a port: port 0 of a switch, or the port itself.
func (n *SoftNode) keyPort(num uint8) *softPort {
	if n.c.Type == mad.NodeSwitch {
		num = 0
	}
	return n.port(num)
}

// Type returns the node type.
func (n *SoftNode) Type() uint8 { return n.c.Type }

// NumPorts returns the number of ports, without port 0 of a switch.
func (n *SoftNode) NumPorts() uint8 { return n.c.NumPorts }

// GUID returns the node's GUID.
func (n *SoftNode) GUID() ci.GUID { return n.c.GUID }

// State returns the logical state of a port, or 0 if there is no such port.
func (n *SoftNode) State(port uint8) ci.PortState {
	p := n.port(port)
	if p == nil {
		return 0
	}
	return ci.PortState(p.state.Load())
}

// LIDs returns the base LID and the LMC of a port. Those of an external port of a switch are 0: port 0 has the LID.
func (n *SoftNode) LIDs(port uint8) (base ci.LID, lmc uint8) {
	p := n.port(port)
	if p == nil {
		return 0, 0
	}
	w := p.where.Load()
	return ci.LID(w >> 8), uint8(w)
}

// PKeys returns the P_Key table of a port, or nil if there is no such port.
func (n *SoftNode) PKeys(port uint8) *PKeyTable {
	p := n.port(port)
	if p == nil {
		return nil
	}
	return &p.pkeys
}

// PortInfo returns a copy of the PortInfo of a port.
func (n *SoftNode) PortInfo(port uint8) (info mad.PortInfo, ok bool) {
	p := n.port(port)
	if p == nil {
		return info, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return p.info, true
}

// GUIDs returns a copy of the GUID table of a port. Entry 0 is the port's GUID.
func (n *SoftNode) GUIDs(port uint8) []ci.GUID {
	p := n.port(port)
	if p == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	guids := make([]ci.GUID, len(p.guids))
	for i, g := range p.guids {
		guids[i] = ci.GUID(g)
	}
	return guids
}

// Protection returns the M_Key of the port, or of port 0 of a switch. It implements KeyedNode.
func (n *SoftNode) Protection(port uint8) Protection {
	p := n.keyPort(port)
	if p == nil {
		return Protection{}
	}
	s := p.shield.Load()
	return Protection{Key: p.mkey.Load(), Level: uint8(s), Lease: uint16(s >> 8)}
}

// CountMKeyViolation implements KeyedNode.
func (n *SoftNode) CountMKeyViolation(port uint8) {
	p := n.keyPort(port)
	if p == nil {
		return
	}
	n.mu.Lock()
	if p.info.MKeyViolations != 0xffff {
		p.info.MKeyViolations++
	}
	n.mu.Unlock()
	n.hw.Changed(p.num, ChangeMKeyViolations)
}

// ExpireMKey implements KeyedNode.
func (n *SoftNode) ExpireMKey(port uint8) {
	p := n.keyPort(port)
	if p == nil {
		return
	}
	n.mu.Lock()
	p.info.MKeyProtect = 0
	p.publish()
	n.mu.Unlock()
	n.hw.Changed(p.num, ChangeMKey)
}

// Manager returns the address of the subnet manager of the port. It implements Notifier.
func (n *SoftNode) Manager(port uint8) (m Manager, ok bool) {
	p := n.keyPort(port)
	if p == nil {
		return m, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i := &p.info
	m = Manager{LID: ci.LID(i.MasterSMLID), SL: ci.SL(i.MasterSMSL), Own: ci.LID(i.LID),
		Timeout: ci.TimeExp(i.SubnetTimeout)}
	return m, !p.unmanaged && i.MasterSMLID != 0 && i.LID != 0 && ci.PortState(i.State) >= ci.PortActive
}

// OnTrap implements TrapSource.
func (n *SoftNode) OnTrap(send func(port uint8, n *mad.Notice)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trap = send
}

// PortAttr returns what CA.Query returns for a port with an address. The GID table ends with the last entry in use.
func (n *SoftNode) PortAttr(num uint8) ci.PortAttr {
	i, _ := n.PortInfo(num)
	guids := n.GUIDs(num)
	a := ci.PortAttr{
		Num: num, GUID: guids[0], Link: ci.LinkInfiniBand, State: ci.PortState(i.State), PhysState: i.PhysState,
		MTU: ci.MTU(i.NeighborMTU), MaxMTU: ci.MTU(i.MTUCap), MaxMsgSize: 1 << 31, LID: ci.LID(i.LID),
		SMLID: ci.LID(i.MasterSMLID), LMC: i.LMC, SMSL: i.MasterSMSL, MaxVLs: i.VLCap, WidthActive: i.WidthActive,
		SpeedActive: i.SpeedActive, SpeedExt: i.SpeedExtActive, SubnetTimeout: ci.TimeExp(i.SubnetTimeout),
		InitTypeReply: ci.InitType(i.InitTypeReply), Capability: ci.PortCap(i.CapabilityMask),
		GIDs: make([]ci.GIDEntry, len(guids)),
	}
	last := 0
	for k, g := range guids {
		if g != 0 {
			last, a.GIDs[k].GID = k, mad.GID(i.GIDPrefix, uint64(g))
		}
	}
	a.GIDs = a.GIDs[:last+1]
	pkeys := n.PKeys(num)
	for k := range pkeys.Len() {
		a.PKeys = append(a.PKeys, pkeys.At(k))
	}
	return a
}
