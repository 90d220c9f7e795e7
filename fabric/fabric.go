package fabric

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/fabric/topology"
	"ciddk/mad"
	"ciddk/sma"
)

// Config describes a fabric. The zero value is one in real time.
type Config struct {
	// Clock is the source of time of agents and, with Timing, of packets; nil is the machine's.
	Clock clock.Clock
	// Timing makes packets arrive after the time that the links and HopLatency take, in place of at once. With a
	// clock.Virtual it is simulated time.
	Timing bool
	// HopLatency is the time that a packet takes from the end of one link to the start of the next one; 0 is 200 ns.
	HopLatency time.Duration
	// MTU is the largest one of all ports; 0 is 4096 bytes.
	MTU ci.MTU
	// Lanes is the number of data lanes of all ports: 1, 2, 4, 8 or 15; 0 is 8.
	Lanes int
	// LaneMTUs are the MTUs of the data lanes of all ports; 0, and a lane beyond the list, is MTU.
	LaneMTUs []ci.MTU
	// FirstTID is the transaction ID of the first trap of each node.
	FirstTID uint64
}

const defaultHopLatency = 200 * time.Nanosecond

// laneCodes are the values of VLCap for the numbers of lanes.
var laneCodes = map[int]uint8{1: 1, 2: 2, 4: 3, 8: 4, 15: 5}

func (c *Config) setDefaults() {
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.HopLatency == 0 {
		c.HopLatency = defaultHopLatency
	}
	if c.MTU == 0 {
		c.MTU = ci.MTU4096
	}
	if c.Lanes == 0 {
		c.Lanes = 8
	}
	if c.FirstTID == 0 {
		c.FirstTID = 1
	}
}

func (c *Config) check() error {
	switch {
	case c.MTU > ci.MTU4096:
		return fmt.Errorf("fabric: MTU code %d: want 1 (256 bytes) to 5 (4096), or 0", c.MTU)
	case laneCodes[c.Lanes] == 0:
		return fmt.Errorf("fabric: %d lanes: want 1, 2, 4, 8 or 15, or 0", c.Lanes)
	case len(c.LaneMTUs) > managementLane:
		return fmt.Errorf("fabric: MTUs of %d lanes: want at most %d", len(c.LaneMTUs), managementLane)
	case slices.ContainsFunc(c.LaneMTUs, func(m ci.MTU) bool { return m > ci.MTU4096 }):
		return fmt.Errorf("fabric: MTU codes %d of lanes: want 1 (256 bytes) to 5 (4096), or 0", c.LaneMTUs)
	case c.HopLatency < 0:
		return fmt.Errorf("fabric: hop latency %v: want no negative time", c.HopLatency)
	}
	return nil
}

// A Fabric is an InfiniBand subnet in software. Methods may be called concurrently.
type Fabric struct {
	cfg    Config
	timing bool
	closed atomic.Bool
	drops  [numDropReasons]atomic.Uint64

	mu    sync.Mutex // guards the topology: names, nodes, cables
	nodes []*node    // replaced when one is removed
	names map[string]*node

	pending pendingLinks

	linksChanged chan struct{} // gets a token when a link has come up or gone down
}

// New returns a fabric with the nodes and links of a topology. All links are up, and all ports in Init: a subnet
// manager brings them to Active. Errors: a nil topology; those of Topology.Validate; a field of c that is out of range.
// The caller closes the fabric.
func New(t *topology.Topology, c Config) (*Fabric, error) {
	if t == nil {
		return nil, errors.New("fabric: the topology is nil: read or generate one with package topology")
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	c.setDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	f := &Fabric{cfg: c, timing: c.Timing, names: make(map[string]*node),
		linksChanged: make(chan struct{}, 1)}
	links := make([]map[int]*topology.Link, len(t.Nodes))
	for i := range t.Links {
		l := &t.Links[i]
		for _, e := range [2]topology.End{l.A, l.B} {
			if links[e.Node] == nil {
				links[e.Node] = make(map[int]*topology.Link)
			}
			links[e.Node][e.Port] = l
		}
	}
	for i := range t.Nodes {
		if _, err := f.addNode(&t.Nodes[i], links[i]); err != nil {
			f.Close()
			return nil, err
		}
	}
	for i := range t.Links {
		l := &t.Links[i]
		f.addCable(f.nodes[l.A.Node].port(uint8(l.A.Port)), f.nodes[l.B.Node].port(uint8(l.B.Port)))
	}
	f.settle()
	return f, nil
}

// Close stops all nodes. Adapters at its ports lose their links. It is idempotent.
func (f *Fabric) Close() {
	if f.closed.Swap(true) {
		return
	}
	f.mu.Lock()
	nodes := f.nodes
	f.mu.Unlock()
	for _, n := range nodes {
		n.agent.Close()
	}
}

// now returns the time of the fabric's clock, or 0 without Timing.
func (f *Fabric) now() time.Duration {
	if !f.timing {
		return 0
	}
	return f.cfg.Clock.Elapsed()
}

// find returns a node by its ID or, if only one has it, by its description. The caller holds f.mu.
func (f *Fabric) find(name string) *node {
	if n := f.names[name]; n != nil {
		return n
	}
	var found *node
	for _, n := range f.nodes {
		if n.desc.Text() != name {
			continue
		}
		if found != nil {
			return nil
		}
		found = n
	}
	return found
}

// Port returns a port of a node by the node's ID or description. Port 0 of a switch is where its agent sits; of an
// adapter, 0 selects the lowest port with a link. Errors: an unknown node; a port out of range.
func (f *Fabric) Port(name string, num int) (*Port, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(name)
	if n == nil {
		return nil, fmt.Errorf("fabric: no node, or several ones, with the name %q: %s", name, f.suggest(name))
	}
	if num == 0 && n.sw == nil {
		for i := range n.ports {
			if n.ports[i].cable != nil {
				return &n.ports[i], nil
			}
		}
		num = 1
	}
	if num < 0 || num > int(n.soft.NumPorts()) {
		return nil, fmt.Errorf("fabric: node %q has ports up to %d: no port %d", name, n.soft.NumPorts(), num)
	}
	return n.port(uint8(num)), nil
}

// suggest returns the remedy for an unknown name. The caller holds f.mu.
func (f *Fabric) suggest(name string) string {
	for _, n := range f.nodes {
		if strings.EqualFold(n.desc.ID, name) {
			return fmt.Sprintf("did you mean %q?", n.desc.ID)
		}
	}
	if len(f.nodes) > 0 {
		return fmt.Sprintf("the first of the %d nodes is %q", len(f.nodes), f.nodes[0].desc.ID)
	}
	return "the fabric has no nodes"
}

// DefaultPort returns the first adapter's first port with a link, at which clients without a place of their own attach.
// It returns nil if there is no adapter with a link.
func (f *Fabric) DefaultPort() *Port {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.sw != nil {
			continue
		}
		for i := range n.ports {
			if n.ports[i].cable != nil {
				return &n.ports[i]
			}
		}
	}
	return nil
}

// node types in NodeInfo are the kinds of topology.
var _ = [1]struct{}{}[uint8(topology.Switch)-mad.NodeSwitch]

var _ sma.Hardware = (*node)(nil)

// PortByGUID returns the port with a port GUID, or the lowest port with a link of the node with a node GUID; of a
// switch, port 0. It returns nil if there is none.
func (f *Fabric) PortByGUID(g ci.GUID) *Port {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.sw != nil && ci.GUID(n.desc.GUID) == g {
			return &n.ports[0]
		}
		for i := range n.ports {
			if p := &n.ports[i]; n.sw == nil && (ci.GUID(n.desc.PortGUID(int(p.num))) == g ||
				ci.GUID(n.desc.GUID) == g && p.cable != nil) {
				return p
			}
		}
	}
	return nil
}
