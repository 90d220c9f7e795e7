package topology

import (
	"fmt"
	"strings"
)

// Limits of a topology. They bound what a file can make a reader allocate.
const (
	MaxNodes = 48 << 10 // as many as there are unicast LIDs
	MaxPorts = 254      // of a node (IBTA volume 1, 14.2.5.3)
	MaxText  = 64       // bytes of an id or a description
)

// A Kind is a node type, with the values of NodeInfo.
type Kind uint8

// Kinds of nodes.
const (
	CA     Kind = 1
	Switch Kind = 2
	Router Kind = 3
)

func (k Kind) String() string {
	switch k {
	case CA:
		return "Ca"
	case Switch:
		return "Switch"
	case Router:
		return "Rt"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// A Topology is a subnet. Links refer to nodes by their index in Nodes.
type Topology struct {
	Nodes []Node
	Links []Link
}

// A Node is a channel adapter, a switch or a router.
type Node struct {
	Kind        Kind
	ID          string // unique in the topology
	Description string // "" is the ID
	NumPorts    int    // without port 0 of a switch
	GUID        uint64 // node GUID
	SystemGUID  uint64 // 0 is the GUID
	VendorID    uint32 // 24 bits
	DeviceID    uint16
	// PortGUIDs overrides the GUIDs of ports. A port without an entry has the node GUID plus its number; all ports of a
	// switch have the node GUID.
	PortGUIDs map[int]uint64
}

// Text returns the node description.
func (n *Node) Text() string {
	if n.Description != "" {
		return n.Description
	}
	return n.ID
}

// PortGUID returns the GUID of a port.
func (n *Node) PortGUID(port int) uint64 {
	if g, ok := n.PortGUIDs[port]; ok {
		return g
	}
	if n.Kind == Switch {
		return n.GUID
	}
	return n.GUID + uint64(port)
}

// An End is a port of a node.
type End struct {
	Node int // index in Topology.Nodes
	Port int // from 1
}

// A Link is a cable between two ports.
type Link struct {
	A, B  End
	Width Width // 0 is Width4x
	Speed Speed // 0 is QDR
}

// Rate returns the width and the speed of the link, with the defaults in place of zeros.
func (l *Link) Rate() (Width, Speed) {
	w, s := l.Width, l.Speed
	if w == 0 {
		w = Width4x
	}
	if s == 0 {
		s = QDR
	}
	return w, s
}

// Index returns the nodes by their IDs.
func (t *Topology) Index() map[string]int {
	m := make(map[string]int, len(t.Nodes))
	for i := range t.Nodes {
		m[t.Nodes[i].ID] = i
	}
	return m
}

// Find returns the index of the node with an ID or, if there is none, with a description. It returns -1 for an unknown
// name and for a description that several nodes have.
func (t *Topology) Find(name string) int {
	found := -1
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.ID == name {
			return i
		}
		if n.Description == name {
			if found >= 0 {
				found = -2
			} else if found == -1 {
				found = i
			}
		}
	}
	return max(found, -1)
}

// Count returns the number of nodes of a kind.
func (t *Topology) Count(k Kind) int {
	n := 0
	for i := range t.Nodes {
		if t.Nodes[i].Kind == k {
			n++
		}
	}
	return n
}

// Validate returns an error for the first node or link that is not possible: an ID or GUID that two nodes have, a port
// out of range, a port with two links.
func (t *Topology) Validate() error {
	if len(t.Nodes) > MaxNodes {
		return fmt.Errorf("topology: %d nodes: a subnet has at most %d", len(t.Nodes), MaxNodes)
	}
	ids := make(map[string]bool, len(t.Nodes))
	guids := make(map[uint64]string, len(t.Nodes))
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if err := n.validate(); err != nil {
			return err
		}
		if ids[n.ID] {
			return fmt.Errorf("topology: two nodes have the id %q: rename one", n.ID)
		}
		ids[n.ID] = true
		if err := n.claimGUIDs(guids); err != nil {
			return err
		}
	}
	used := make(map[End]bool, 2*len(t.Links))
	for i := range t.Links {
		l := &t.Links[i]
		for _, e := range [2]End{l.A, l.B} {
			if e.Node < 0 || e.Node >= len(t.Nodes) {
				return fmt.Errorf("topology: link %d: node %d of %d", i, e.Node, len(t.Nodes))
			}
			n := &t.Nodes[e.Node]
			if e.Port < 1 || e.Port > n.NumPorts {
				return fmt.Errorf("topology: node %q has ports 1 to %d, and a link at port %d", n.ID,
					n.NumPorts, e.Port)
			}
			if used[e] {
				return fmt.Errorf("topology: node %q has two links at port %d: remove one", n.ID, e.Port)
			}
			used[e] = true
		}
	}
	return nil
}

// claimGUIDs records the GUIDs of a node and its ports. It returns an error if another node has one of them.
func (n *Node) claimGUIDs(owners map[uint64]string) error {
	claim := func(g uint64) error {
		if other, ok := owners[g]; ok && other != n.ID {
			return fmt.Errorf("topology: nodes %q and %q have the GUID %#x: change one", other, n.ID, g)
		}
		owners[g] = n.ID
		return nil
	}
	if err := claim(n.GUID); err != nil {
		return err
	}
	for p := 1; p <= n.NumPorts && n.Kind != Switch; p++ {
		if err := claim(n.PortGUID(p)); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) validate() error {
	switch {
	case n.Kind < CA || n.Kind > Router:
		return fmt.Errorf("topology: node %q: kind %d: want CA, Switch or Router", n.ID, n.Kind)
	case n.ID == "" || len(n.ID) > MaxText || !isPlain(n.ID) || strings.ContainsAny(n.ID, "@#"):
		return fmt.Errorf("topology: node id %q: want 1 to %d printable characters other than quotes, @ and #", n.ID,
			MaxText)
	case len(n.Description) > MaxText || !isPlain(n.Description):
		return fmt.Errorf("topology: node %q: description %q: want at most %d bytes of printable characters, no quotes",
			n.ID, n.Description, MaxText)
	case n.NumPorts < 1 || n.NumPorts > MaxPorts:
		return fmt.Errorf("topology: node %q: %d ports: want 1 to %d", n.ID, n.NumPorts, MaxPorts)
	case n.GUID == 0:
		return fmt.Errorf("topology: node %q has no GUID", n.ID)
	case n.VendorID >= 1<<24:
		return fmt.Errorf("topology: node %q: vendor id %#x: want 24 bits", n.ID, n.VendorID)
	}
	for p, g := range n.PortGUIDs {
		if p < 0 || p > n.NumPorts || g == 0 {
			return fmt.Errorf("topology: node %q: GUID %#x for port %d: want another GUID and a port up to %d",
				n.ID, g, p, n.NumPorts)
		}
	}
	return nil
}

// isPlain reports whether s can stand between quotes in a net file.
func isPlain(s string) bool {
	for _, r := range s {
		if r < ' ' || r == '"' || r == 0x7f || r == '\ufffd' {
			return false
		}
	}
	return true
}
