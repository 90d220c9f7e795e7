package direct

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/link/internal/visits"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/sma"
)

// Config describes a port on a Link. The zero value is an active port with an assigned LID.
type Config struct {
	// LID is the base LID, 1 to 0xBFFF. With 0, the port is assigned the lowest free LID, unless State is Init or
	// Armed, in which case a subnet manager assigns it.
	LID ci.LID
	// LMC is the number of low LID bits that are ignored, 0 to 7.
	LMC uint8
	// State is the logical state in which the port comes up. PortActive (also 0) needs no subnet manager. PortInit and
	// PortArmed wait for one. PortDown is a port without a cable, until HCA.SetLink makes it Active.
	State ci.PortState
	// MTU is the largest path MTU; 0 is 4096 bytes.
	MTU ci.MTU
	// GUID is the port's; 0 derives it from the HCA's.
	GUID ci.GUID
	// Aliases are entries 1, 2, … of the GUID table, and so of the GID table. A zero is an empty entry. At most 10.
	Aliases []ci.GUID
	// PKeys are the first entries of the table of 37; nil is the default partition, 0xFFFF.
	PKeys []ci.PKey
	// HardwareAgents makes the port answer the requests of subnet managers that arrive at QP0, as adapters with agents
	// in firmware do. The consumer of QP0 receives the rest: responses, traps, and requests to a manager. With
	// PassConsumed, it receives the requests that were answered, too.
	HardwareAgents, PassConsumed bool
}

const (
	numPKeys = 37 // entries of the P_Key table: the second block has 5
	numGUIDs = 11 // entries of the GUID table: the second block has 3

	fourVLs        = 3  // PortInfo.VLCap: VL 0 to VL 3. The lanes are managed; packets do not queue on this link.
	lowArbEntries  = 33 // of the VL arbitration table for low priority: the second block has 1
	highArbEntries = 32 // of the one for high priority, which has no second block

	// PortInfo.CapabilityMask has a bit for extended speeds. The port supports two of them, and the link uses none.
	capExtendedSpeeds = 1 << 14
	extendedSpeeds    = 3
)

// check validates the configuration after setDefaults.
func (c *Config) check() error {
	switch {
	case c.LID > maxUnicastLID:
		return fmt.Errorf("direct: LID %#x is no unicast LID: want 1 to %#x, or 0", c.LID, maxUnicastLID)
	case c.LMC > 7 || c.LID&(1<<c.LMC-1) != 0:
		return fmt.Errorf("direct: LMC %d with LID %#x: want an LMC of 0 to 7 and a LID whose low LMC bits are zero",
			c.LMC, c.LID)
	case c.LMC > 0 && c.LID == 0:
		return fmt.Errorf("direct: LMC %d needs a LID", c.LMC)
	case c.State < ci.PortDown || c.State > ci.PortActive:
		return fmt.Errorf("direct: state %v: want Down, Init, Armed or Active", c.State)
	case c.MTU > ci.MTU4096:
		return fmt.Errorf("direct: MTU code %d: want 1 (256 bytes) to 5 (4096), or 0", c.MTU)
	case len(c.PKeys) > numPKeys:
		return fmt.Errorf("direct: %d P_Keys, the table has %d", len(c.PKeys), numPKeys)
	case len(c.Aliases) >= numGUIDs:
		return fmt.Errorf("direct: %d alias GUIDs, the table has room for %d", len(c.Aliases), numGUIDs-1)
	}
	return nil
}

func (c *Config) setDefaults() {
	if c.State == 0 {
		c.State = ci.PortActive
	}
	if c.MTU == 0 {
		c.MTU = ci.MTU4096
	}
	if c.PKeys == nil {
		c.PKeys = []ci.PKey{0xffff}
	}
}

// A Port is a port of link layer InfiniBand on a Link. It implements rvt.Port, and the optional interfaces CablePort,
// SMAPort, EncoderPort and ViolationPort.
type Port struct {
	link *Link
	rise ci.PortState // the state to come up in

	config  Config
	node    atomic.Pointer[node]
	cable   atomic.Bool // plugged in
	started atomic.Bool
	visits  visits.Counter

	// Set by Start, before started.
	recv rvt.Receiver
	lost func(rvt.Loss) // or nil
}

var _ interface {
	rvt.Port
	rvt.CablePort
	rvt.SMAPort
	rvt.EncoderPort
	rvt.SystemGUIDPort
	rvt.ViolationPort
} = (*Port)(nil)

// New puts a port on a link. Errors: a nil link; a LID that is taken; another field out of range. The caller closes the
// port, or passes it to the New of an adapter.
func New(l *Link, c Config) (*Port, error) {
	if l == nil {
		return nil, errors.New("direct: the link is nil: make one with NewLink")
	}
	c.setDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	p := &Port{link: l, config: c, rise: c.State}
	info := mad.PortInfo{
		GIDPrefix: sma.DefaultGIDPrefix, LMC: c.LMC, State: uint8(c.State), PhysState: sma.PhysLinkUp,
		LinkDownDefault: sma.PhysPolling, WidthEnabled: 3, WidthSupported: 3, WidthActive: 2, SpeedSupported: 7,
		SpeedEnabled: 7, SpeedActive: 4, SpeedExtSupp: extendedSpeeds, SpeedExtEnabled: extendedSpeeds,
		NeighborMTU: uint8(c.MTU), MTUCap: uint8(c.MTU), VLCap: fourVLs,
		OperationalVLs: fourVLs,
		GUIDCap:        numGUIDs, VLArbLowCap: lowArbEntries, VLArbHighCap: highArbEntries, RespTimeValue: 16,
		CapabilityMask: uint32(ci.PortCapReregister | ci.PortCapTrap | ci.PortCapNotice | ci.PortCapSLMapping |
			ci.PortCapLEDInfo | ci.PortCapSystemGUID | ci.PortCapMaskNotice | capExtendedSpeeds),
	}
	p.cable.Store(c.State != ci.PortDown)
	switch c.State {
	case ci.PortDown:
		p.rise = ci.PortActive
		info.PhysState = sma.PhysPolling
	case ci.PortActive:
		info.SubnetTimeout = 18
	}
	n, err := p.newNode(1, rvt.Node{GUID: unknownGUID}, info)
	if err != nil {
		return nil, err
	}
	p.node.Store(n)
	if err := l.add(p, c.LID, p.rise == ci.PortActive); err != nil {
		return nil, err
	}
	return p, nil
}

// unknownGUID is the GUID of a port's node before Start, which no one sees.
const unknownGUID ci.GUID = 1

// lids returns base LID and LMC.
func (p *Port) lids() (ci.LID, uint8) {
	n := p.node.Load()
	return n.LIDs(n.num)
}

// logical returns the logical state.
func (p *Port) logical() ci.PortState {
	n := p.node.Load()
	return n.State(n.num)
}

// Start admits deliveries. A port without a configured GUID gets one that follows from the node's.
func (p *Port) Start(c rvt.PortContext) error {
	if p.visits.IsClosed() || p.started.Load() {
		return fmt.Errorf("direct: %w", rvt.ErrPortStarted)
	}
	p.recv, p.lost = c.Receiver, c.Lost
	if err := p.manage(&c); err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	p.started.Store(true)
	return nil
}

// Close leaves the link, and returns when no delivery to the port is in progress. It is idempotent.
func (p *Port) Close() error {
	if !p.visits.Close() {
		return nil
	}
	p.link.remove(p)
	if a := p.node.Load().agent; a != nil {
		a.Close()
	}
	p.visits.Wait()
	return nil
}

// deliver passes packets to the receiver, if the port is started and its state admits them.
func (p *Port) deliver(pkts []rvt.Packet) {
	if !p.visits.Enter() {
		return
	}
	defer p.visits.Leave()
	if !p.started.Load() {
		return
	}
	n := p.admit(pkts)
	if p.config.HardwareAgents {
		n = p.consume(pkts[:n])
	}
	if n > 0 {
		p.recv.Deliver(pkts[:n], false, false)
	}
}

// admit applies the port's state (IBTA volume 1, 7.2.7). Data packets are admitted in Armed and Active, and the first
// one makes an armed port active. Subnet management packets are also admitted in Init. admit moves the admitted packets
// to the front, counts the others as dropped, and returns the number of the former.
func (p *Port) admit(pkts []rvt.Packet) int {
	switch s := p.logical(); {
	case s == ci.PortActive:
		return len(pkts)
	case s == ci.PortArmed && slices.ContainsFunc(pkts, func(p rvt.Packet) bool { return p.DestQP != 0 }):
		p.activate()
		return len(pkts)
	case s == ci.PortArmed || s == ci.PortInit:
		n := 0
		for i := range pkts {
			if pkts[i].DestQP == 0 {
				pkts[n] = pkts[i]
				n++
			} else {
				p.notForUs(&pkts[i])
			}
		}
		p.recv.Count(rvt.DropNotForUs, train.Count(pkts)-train.Count(pkts[:n]))
		return n
	}
	for i := range pkts {
		p.notForUs(&pkts[i])
	}
	p.recv.Count(rvt.DropNotForUs, train.Count(pkts))
	return 0
}

// notForUs reports a packet that the port's state does not admit.
func (p *Port) notForUs(pkt *rvt.Packet) {
	if p.lost != nil {
		p.lost(rvt.Loss{Direction: rvt.Received, Packet: pkt, Reason: rvt.DropNotForUs.String()})
	}
}

// maySend reports whether the port's state allows it to send: data in Active only.
func (p *Port) maySend(dest ci.QPN) bool {
	s := p.logical()
	return !p.visits.IsClosed() && (s == ci.PortActive || dest == 0 && s >= ci.PortInit)
}

func (p *Port) count(c rvt.Counter, n int) {
	if p.started.Load() {
		p.recv.Count(c, n)
	}
}

// activate makes an armed port active. The first data packet does that.
func (p *Port) activate() {
	n := p.node.Load()
	n.Activate(n.num)
}

// Hints returns those of a lossless link: long trains cost nothing.
func (p *Port) Hints() rvt.Hints { return rvt.Hints{MaxTrain: 1 << 20, Lossless: true} }

// gid returns an entry of the GID table that is in use.
func (p *Port) gid(i uint16) (ci.GID, bool) {
	g := p.Attr().GIDs
	if int(i) >= len(g) || g[i].GID == (ci.GID{}) {
		return ci.GID{}, false
	}
	return g[i].GID, true
}

// Attr returns PortInfo and the tables.
func (p *Port) Attr() ci.PortAttr {
	n := p.node.Load()
	a := n.PortAttr(n.num)
	a.HardwareAgents = p.config.HardwareAgents
	return a
}

// Modify sets capability bits and the init type, and shuts the port down.
func (p *Port) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown | ci.PortFieldInitType); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported,
			Detail: fmt.Sprintf("fields %#x are not the port's", uint32(rest))}
	}
	n := p.node.Load()
	if set&ci.PortFieldInitType != 0 {
		n.SetInitType(n.num, a.InitType)
	}
	if set&ci.PortFieldCapability != 0 {
		n.SetCapability(n.num, a.CapMask, a.Capability)
	}
	if set&ci.PortFieldShutdown != 0 {
		p.setLink(false, sma.PhysDisabled)
	}
	return nil
}

// SetLink plugs in or pulls out the cable. A port whose link comes up is in the state that was configured: Active
// without a subnet manager, or Init, waiting for one. It implements rvt.CablePort.
func (p *Port) SetLink(up bool) { p.setLink(up, sma.PhysNoChange) }

// setLink is SetLink. A port that goes down does phys then; PhysNoChange selects PortInfo.LinkDownDefault.
func (p *Port) setLink(up bool, phys uint8) {
	p.cable.Store(up)
	n := p.node.Load()
	switch state := n.State(n.num); {
	case !up && state != ci.PortDown:
		n.LinkDown(n.num, phys)
	case up && state == ci.PortDown: // the event of Init makes a subnet manager notice the port
		n.SetState(n.num, p.rise, sma.PhysLinkUp)
	}
}
