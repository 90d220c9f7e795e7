package topology

import "fmt"

// GUIDs of generated nodes. Generated topologies have the same GUIDs in every run.
const (
	firstSwitchGUID = 0x0002c90000200000
	firstHostGUID   = 0x0002c90000100000
	generatedVendor = 0x0002c9
	switchDevice    = 0xbd36
	hostDevice      = 0x673c
)

// maxGenerated is the most nodes of a generated topology.
const maxGenerated = MaxNodes

// A Rate is width and speed of the links of a generated topology. The zero value is 4xQDR.
type Rate struct {
	Width Width
	Speed Speed
}

// builder adds nodes and links to a topology.
type builder struct {
	t    Topology
	rate Rate
	next []int // the lowest unused port of each node
}

func (b *builder) add(k Kind, id string) int {
	n := Node{Kind: k, ID: id, VendorID: generatedVendor}
	if k == Switch {
		n.GUID, n.DeviceID = firstSwitchGUID+uint64(len(b.t.Nodes))*0x100, switchDevice
	} else {
		n.GUID, n.DeviceID = firstHostGUID<<4+uint64(len(b.t.Nodes))*0x10, hostDevice
	}
	b.t.Nodes = append(b.t.Nodes, n)
	b.next = append(b.next, 1)
	return len(b.t.Nodes) - 1
}

// take returns the lowest unused port of a node.
func (b *builder) take(node int) End {
	e := End{node, b.next[node]}
	b.next[node]++
	return e
}

func (b *builder) link(x, y End) {
	b.t.Links = append(b.t.Links, Link{A: x, B: y, Width: b.rate.Width, Speed: b.rate.Speed})
	for _, e := range [2]End{x, y} {
		n := &b.t.Nodes[e.Node]
		n.NumPorts = max(n.NumPorts, e.Port)
	}
}

// host adds an adapter with one port, connected to a switch.
func (b *builder) host(sw int, id string) {
	h := b.add(CA, id)
	b.link(b.take(h), b.take(sw))
}

// finish sets port counts of nodes without links, and validates the result.
func (b *builder) finish() (*Topology, error) {
	for i := range b.t.Nodes {
		b.t.Nodes[i].NumPorts = max(b.t.Nodes[i].NumPorts, 1)
	}
	if err := b.t.Validate(); err != nil {
		return nil, err
	}
	return &b.t, nil
}

// checkSize returns an error for a product of factors beyond the limit, or a factor out of range.
func checkSize(what string, factors ...int) error {
	n := 1
	for _, f := range factors {
		if f < 1 {
			return fmt.Errorf("topology: %s: %v: want numbers from 1 on", what, factors)
		}
		if n > maxGenerated/f {
			return fmt.Errorf("topology: %s: %v: more than %d nodes", what, factors, maxGenerated)
		}
		n *= f
	}
	return nil
}
