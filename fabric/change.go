package fabric

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/fabric/topology"
	"ciddk/sma"
)

// A Cable is a link of a node that is added to a fabric.
type Cable struct {
	Port     int    // of the new node
	Peer     string // name of a node of the fabric
	PeerPort int    // without a cable
}

// AddNode adds a node with its cables to a running fabric. Ports have the rate of 4xQDR. Errors: a node that is not
// valid; an ID or a GUID that a node of the fabric has; a cable to a port that does not exist or has one. A failed
// AddNode changes nothing.
func (f *Fabric) AddNode(d topology.Node, cables ...Cable) error {
	if err := (&topology.Topology{Nodes: []topology.Node{d}}).Validate(); err != nil {
		return err
	}
	peers := make([]*Port, len(cables))
	for i, c := range cables {
		p, err := f.Port(c.Peer, c.PeerPort)
		if err != nil {
			return err
		}
		if c.Port < 1 || c.Port > d.NumPorts || c.PeerPort < 1 {
			return fmt.Errorf("fabric: cable from port %d of %q to port %d of %q: want ports from 1 on, up to %d here",
				c.Port, d.ID, c.PeerPort, c.Peer, d.NumPorts)
		}
		peers[i] = p
	}
	f.mu.Lock()
	for _, n := range f.nodes {
		if n.desc.GUID == d.GUID {
			f.mu.Unlock()
			return fmt.Errorf("fabric: node %q has the GUID %#x, too", n.desc.ID, d.GUID)
		}
	}
	for i, p := range peers {
		taken := slices.ContainsFunc(cables[:i], func(c Cable) bool { return c.Port == cables[i].Port }) ||
			slices.Contains(peers[:i], p)
		if p.cable != nil || taken {
			f.mu.Unlock()
			return fmt.Errorf("fabric: cable %d, from port %d of %q to port %d of %q: one of the ports has a cable",
				i+1,
				cables[i].Port, d.ID, p.num, p.Node())
		}
	}
	n, err := f.addNode(&d, nil)
	if err == nil {
		for i, c := range cables {
			f.addCable(n.port(uint8(c.Port)), peers[i])
		}
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	f.settle()
	return nil
}

// RemoveNode pulls all cables out of a node and removes it. Its adapters and clients stay attached to nothing. Errors:
// an unknown node.
func (f *Fabric) RemoveNode(name string) error {
	p, err := f.Port(name, 0)
	if err != nil {
		return err
	}
	n := p.node
	f.mu.Lock()
	if f.names[n.desc.ID] != n {
		f.mu.Unlock()
		return fmt.Errorf("fabric: node %q was removed by another call", name)
	}
	var down []*Port
	for i := range n.ports {
		c := n.ports[i].cable
		if c == nil {
			continue
		}
		for _, end := range [2]*Port{c.a, c.b} {
			if end.peer.Swap(nil) != nil {
				end.count.linkDowned.Add(1)
			}
			end.cable = nil
			down = append(down, end)
		}
	}
	delete(f.names, n.desc.ID)
	f.nodes = slices.DeleteFunc(slices.Clone(f.nodes), func(x *node) bool { return x == n })
	f.mu.Unlock()
	for _, end := range down {
		end.node.soft.LinkDown(end.num, sma.PhysPolling)
	}
	n.agent.Close()
	return nil
}

// Names returns the IDs of the nodes of a kind, in the order of the topology.
func (f *Fabric) Names(k topology.Kind) (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.desc.Kind == k {
			names = append(names, n.desc.ID)
		}
	}
	return names
}

// A Status is a snapshot of a fabric.
type Status struct {
	Nodes []NodeStatus      `json:"nodes"`
	Drops map[string]uint64 `json:"drops"` // as Fabric.AddCounters, without zeros
}

// A NodeStatus is a snapshot of a node.
type NodeStatus struct {
	ID          string       `json:"id"`
	Description string       `json:"description"`
	Kind        string       `json:"kind"` // CA, Switch or Router
	GUID        string       `json:"guid"`
	LID         ci.LID       `json:"lid"` // of a switch
	Ports       []PortStatus `json:"ports"`
}

// A PortStatus is a snapshot of a port. Ports without a cable have no peer.
type PortStatus struct {
	Num      int    `json:"num"`
	LID      ci.LID `json:"lid,omitempty"`
	LMC      uint8  `json:"lmc,omitempty"`
	State    string `json:"state"`
	Peer     string `json:"peer,omitempty"`
	PeerPort int    `json:"peerPort,omitempty"`
	Cut      bool   `json:"cut,omitempty"`
	Rate     string `json:"rate,omitempty"` // of a link that is up
	Adapter  bool   `json:"adapter,omitempty"`
	Clients  int    `json:"clients,omitempty"`
	Sent     uint64 `json:"sent"` // packets
	Received uint64 `json:"received"`
}

var kindNames = map[topology.Kind]string{topology.CA: "CA", topology.Switch: "Switch", topology.Router: "Router"}

// Status returns a snapshot.
func (f *Fabric) Status() Status {
	s := Status{Drops: make(map[string]uint64)}
	for r, name := range dropNames {
		if n := f.drops[r].Load(); n > 0 {
			s.Drops[name] = n
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		s.Nodes = append(s.Nodes, n.status())
	}
	return s
}

// status returns a snapshot of a node. Fabric.mu is held.
func (n *node) status() NodeStatus {
	s := NodeStatus{ID: n.desc.ID, Description: n.desc.Text(), Kind: kindNames[n.desc.Kind],
		GUID: fmt.Sprintf("%#016x", n.desc.GUID)}
	for i := range n.ports {
		p := &n.ports[i]
		w := p.fast.load()
		if p.num == 0 {
			s.LID = w.lid()
			continue
		}
		x := PortStatus{Num: int(p.num), State: w.state().String(), Sent: p.count.xmitPackets.Load(),
			Received: p.count.rcvPackets.Load(), Adapter: p.ca.Load() != nil}
		if n.sw == nil {
			x.LID, x.LMC = w.lid(), w.lmc()
		}
		if list := p.clients.Load(); list != nil {
			x.Clients = len(*list)
		}
		if c := p.cable; c != nil {
			other := c.a
			if other == p {
				other = c.b
			}
			x.Peer, x.PeerPort, x.Cut = other.Node(), int(other.num), c.cut
		}
		if w.state() > ci.PortDown {
			i := p.Info()
			x.Rate = topology.FormatRate(topology.WidthOf(i.WidthActive),
				topology.SpeedOf(i.SpeedActive, i.SpeedExtActive))
		}
		s.Ports = append(s.Ports, x)
	}
	return s
}
