package fabric

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/fabric/topology"
	"ciddk/mad"
	"ciddk/sma"
	"ciddk/sma/pma"
)

// A node is a switch, an adapter or a router of a fabric.
type node struct {
	fabric *Fabric
	desc   topology.Node
	soft   *sma.SoftNode
	agent  *sma.Agent
	perf   *pma.Agent
	sw     *switchParts // nil: not a switch
	ports  []Port       // by number: from 0 of a switch, else from 1
}

// switchParts is what only switches have.
type switchParts struct{}

// A Port is a port of a node of a Fabric.
type Port struct {
	node  *node
	num   uint8
	fast  fastInfo
	peer  atomic.Pointer[Port] // the other end of the cable while the link is up
	line  line
	lanes laneMTUs

	clients atomic.Pointer[[]Client]
	ca      atomic.Pointer[CAPort]
	count   traffic

	cable *cable // guarded by Fabric.mu
}

// line is the sending side of a link, for Config.Timing.
type line struct {
	mu    sync.Mutex
	free  time.Duration // when it has sent what it carries
	picos int64         // for a byte
}

// Tables of switches.
const (
	linearCap    = 0xc000
	multicastCap = 1024
	partitionCap = 32 // P_Keys of an external port
)

// nodeRevision is NodeInfo.Revision of all nodes: topologies have none.
const nodeRevision = 1

// addNode adds a node whose ports have the rates of links, by port. f.mu is held, or the fabric is not shared yet.
func (f *Fabric) addNode(d *topology.Node, links map[int]*topology.Link) (*node, error) {
	if f.names[d.ID] != nil {
		return nil, fmt.Errorf("fabric: a second node with the id %q", d.ID)
	}
	n := &node{fabric: f, desc: *d}
	c := sma.SoftConfig{Type: uint8(d.Kind), GUID: ci.GUID(d.GUID), SystemGUID: ci.GUID(d.SystemGUID),
		VendorID: d.VendorID, DeviceID: d.DeviceID, Revision: nodeRevision, Description: d.Text(),
		NumPorts: uint8(d.NumPorts), Hardware: n}
	first := uint8(1)
	if d.Kind == topology.Switch {
		first = 0
		n.sw = &switchParts{}
		c.Switch = mad.SwitchInfo{LinearFDBCap: linearCap, McastFDBCap: multicastCap, LIDsPerPort: 0,
			PartEnfCap: partitionCap, Flags: mad.SwitchEnforceIn | mad.SwitchEnforceOut}
	}
	for num := first; int(num) <= d.NumPorts; num++ {
		c.Ports = append(c.Ports, sma.SoftPort{Num: num, GUID: ci.GUID(d.PortGUID(int(num))),
			Info: f.portInfo(d.Kind, num, links[int(num)])})
	}
	if n.sw != nil { // port 0 has the capabilities of the switch
		for i := range c.Ports {
			c.Ports[0].Info.CapabilityMask |= c.Ports[i].Info.CapabilityMask & capExtendedSpeeds
		}
	}
	soft, err := sma.NewSoftNode(c)
	if err != nil {
		return nil, fmt.Errorf("fabric: node %q: %w", d.ID, err)
	}
	n.soft = soft
	n.ports = make([]Port, len(c.Ports))
	for i := range n.ports {
		p := &n.ports[i]
		p.node, p.num = n, first+uint8(i)
		p.lanes.init(f.cfg.LaneMTUs)
		p.refresh()
	}
	n.agent = sma.New(sma.Config{Node: soft, Clock: f.cfg.Clock, FirstTID: f.cfg.FirstTID,
		SendTrap: func(num uint8, to sma.Manager, m *ci.MAD) {
			if p := n.port(num); p != nil {
				f.trap(p.manager(), to, m)
			}
		}})
	n.perf = pma.New(pma.Config{Source: n, NumPorts: soft.NumPorts(), Supported: supportedCounters,
		AllPorts: n.sw != nil})
	f.nodes = append(f.nodes, n)
	f.names[d.ID] = n
	return n, nil
}

// portInfo returns the initial PortInfo of a port.
func (f *Fabric) portInfo(k topology.Kind, num uint8, l *topology.Link) mad.PortInfo {
	i := sma.DefaultPortInfo()
	if l == nil {
		l = &topology.Link{}
	}
	width, speed := l.Rate()
	i.WidthSupported = width.Supported()
	i.SpeedSupported, i.SpeedExtSupp = speed.Supported()
	i.WidthEnabled, i.SpeedEnabled, i.SpeedExtEnabled = i.WidthSupported, i.SpeedSupported, i.SpeedExtSupp
	i.WidthActive, i.SpeedActive = width.Code(), 1
	if i.SpeedExtSupp != 0 {
		i.CapabilityMask |= capExtendedSpeeds
	}
	i.MTUCap, i.NeighborMTU = uint8(f.cfg.MTU), uint8(f.cfg.MTU)
	i.VLCap = laneCodes[f.cfg.Lanes]
	i.OperationalVLs = i.VLCap
	if k == topology.Switch && num != 0 {
		i.GIDPrefix = 0
	}
	return i
}

// port returns a port by its number, or nil.
func (n *node) port(num uint8) *Port {
	i := int(num)
	if n.sw == nil {
		i--
	}
	if i < 0 || i >= len(n.ports) {
		return nil
	}
	return &n.ports[i]
}

// refresh copies the PortInfo to where packets read it.
func (p *Port) refresh() {
	if i, ok := p.node.soft.PortInfo(p.num); ok {
		p.fast.store(&i)
	}
}

// activate makes an armed port active: a data packet arrived.
func (p *Port) activate() { p.node.soft.Activate(p.num) }

// Train implements sma.Hardware: a Set(PortInfo) moved the link of a port. It takes effect with the next settle, since
// the other end may be processing a Set, too.
func (n *node) Train(num, _ uint8) {
	if p := n.port(num); p != nil {
		n.fabric.pending.add(p)
	}
}

// Changed implements sma.Hardware.
func (n *node) Changed(num uint8, c sma.Change) {
	p := n.port(num)
	if p == nil {
		return
	}
	p.refresh()
	if c&(sma.ChangeInit|sma.ChangeDown) != 0 {
		select {
		case n.fabric.linksChanged <- struct{}{}:
		default:
		}
	}
	if ca := p.ca.Load(); ca != nil {
		ca.changed(c)
	}
}

// Node returns the ID of the port's node.
func (p *Port) Node() string { return p.node.desc.ID }

// Num returns the number of the port.
func (p *Port) Num() uint8 { return p.num }

// LID returns the base LID and the LMC of the port.
func (p *Port) LID() (base ci.LID, lmc uint8) {
	w := p.fast.load()
	return w.lid(), w.lmc()
}

// State returns the logical state of the port.
func (p *Port) State() ci.PortState { return p.fast.load().state() }

// capExtendedSpeeds is the bit of CapabilityMask for ports with speeds from FDR on (IBTA volume 1, 14.2.5.6).
const capExtendedSpeeds = 1 << 14
