package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// errSet reports a Set that an agent rejected.
var errSet = errors.New("fabric: the agent rejected a Set")

// KeepConfigured calls Configure, and again after each change of a link, until ctx ends. It returns the error of
// Configure, or nil when ctx has ended. Only one call may be in progress.
func (f *Fabric) KeepConfigured(ctx context.Context) error {
	for {
		err := f.Configure()
		if err != nil && (!errors.Is(err, errSet) || len(f.linksChanged) == 0) {
			return err
		} // otherwise a link has changed meanwhile
		select {
		case <-f.linksChanged:
		case <-ctx.Done():
			return nil
		}
	}
}

// Configure brings the subnet up without a subnet manager, for tests and simulations: it assigns LIDs from 1 on,
// switches last, writes shortest paths into the forwarding tables, and makes all ports with a link active. Ports that
// have LIDs keep them. Multicast tables stay empty. It replaces what a manager has set. Errors: a subnet with too many
// ports; a port that is protected by an M_Key.
func (f *Fabric) Configure() error {
	f.mu.Lock()
	nodes := slices.Clone(f.nodes)
	f.mu.Unlock()
	ends, err := f.assignLIDs(nodes)
	if err != nil {
		return err
	}
	if err := writeRoutes(nodes, ends); err != nil {
		return err
	}
	for _, s := range []ci.PortState{ci.PortArmed, ci.PortActive} {
		for _, n := range nodes {
			if err := n.setStates(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// assignLIDs sets the LIDs of the end ports that have none. It returns the end ports by LID.
func (f *Fabric) assignLIDs(nodes []*node) (ends []*Port, err error) {
	taken := map[int]bool{}
	var wanted []*Port
	keep := map[*Port]int{}
	for _, switches := range []bool{false, true} {
		for _, n := range nodes {
			if (n.sw != nil) != switches {
				continue
			}
			for i := range n.ports {
				p := &n.ports[i]
				lid := int(p.fast.load().lid())
				isEnd := !switches || p.num == 0
				switch {
				case isEnd && lid != 0 && !taken[lid]:
					taken[lid], keep[p] = true, lid
					wanted = append(wanted, p)
				case isEnd && (switches || p.State() != ci.PortDown):
					wanted = append(wanted, p)
				}
			}
		}
	}
	ends = []*Port{nil}
	next := 1
	for _, p := range wanted {
		lid := keep[p]
		if lid == 0 {
			for taken[next] {
				next++
			}
			lid = next
			taken[lid] = true
		}
		if lid >= int(firstMulticastLID) {
			return nil, fmt.Errorf("fabric: more than %d end ports", firstMulticastLID-1)
		}
		err := p.node.setPortInfo(p.num, func(i *mad.PortInfo) { i.LID, i.LMC, i.MasterSMLID = uint16(lid), 0, 1 })
		if err != nil {
			return nil, err
		}
		for len(ends) <= lid {
			ends = append(ends, nil)
		}
		ends[lid] = p
	}
	return ends, nil
}

// set executes a Set at a port of the node, as an agent does.
func (n *node) set(port uint8, attr uint16, modifier uint32, data *[mad.SMPDataLen]byte) error {
	q := sma.Request{Port: port, Set: true, Attribute: attr, Modifier: modifier, Data: data[:], Authentic: true}
	if status, ok := n.soft.Execute(q); !ok || status != mad.StatusOK {
		return fmt.Errorf("%w: node %q, attribute %#x, modifier %#x: status %v", errSet, n.desc.ID, attr, modifier,
			mad.Status(status))
	}
	return nil
}

// setPortInfo changes the PortInfo of a port.
func (n *node) setPortInfo(num uint8, change func(*mad.PortInfo)) error {
	i, _ := n.soft.PortInfo(num)
	i.State, i.PhysState = 0, sma.PhysNoChange
	change(&i)
	var data [mad.SMPDataLen]byte
	i.Put(data[:])
	return n.set(num, mad.AttrPortInfo, uint32(num), &data)
}

// setStates moves the ports of a node that have a link to a state.
func (n *node) setStates(s ci.PortState) error {
	for i := range n.ports {
		p := &n.ports[i]
		now := p.State()
		if p.num == 0 || now == ci.PortDown || now >= s {
			continue
		}
		if err := n.setPortInfo(p.num, func(i *mad.PortInfo) { i.State = uint8(s) }); err != nil {
			return err
		}
	}
	return nil
}

// writeRoutes writes the linear forwarding tables. Of several shortest paths, LIDs take turns.
func writeRoutes(nodes []*node, ends []*Port) error {
	index := make(map[*node]int, len(nodes))
	for i, n := range nodes {
		index[n] = i
	}
	tables := make([][]uint8, len(nodes))
	for i, n := range nodes {
		if n.sw != nil {
			tables[i] = make([]uint8, (len(ends)+63)/64*64)
			for k := range tables[i] {
				tables[i][k] = mad.NoPort
			}
		}
	}
	distance := make([]int, len(nodes))
	for lid, end := range ends {
		if end != nil {
			routeTo(end, lid, index, tables, distance)
		}
	}
	for i, n := range nodes {
		if n.sw == nil {
			continue
		}
		if err := n.writeTable(tables[i], len(ends)-1); err != nil {
			return err
		}
	}
	return nil
}

// routeTo writes the routes to a LID into the tables of all switches, outward from its port.
func routeTo(end *Port, lid int, index map[*node]int, tables [][]uint8, distance []int) {
	for i := range distance {
		distance[i] = -1
	}
	start := index[end.node]
	distance[start] = 0
	if end.node.sw != nil {
		tables[start][lid] = 0
	}
	for todo := []*node{end.node}; len(todo) > 0; todo = todo[1:] {
		n := todo[0]
		at := index[n]
		for i := range n.ports {
			p := &n.ports[i]
			if n == end.node && n.sw == nil && p != end {
				continue
			}
			next := p.peer.Load()
			if next == nil || next.node.sw == nil {
				continue
			}
			k := index[next.node]
			switch {
			case distance[k] < 0:
				distance[k] = distance[at] + 1
				tables[k][lid] = next.num
				todo = append(todo, next.node)
			case distance[k] == distance[at]+1 && (lid+int(next.num))%2 == 0:
				tables[k][lid] = next.num
			}
		}
	}
}

// writeTable writes the forwarding table of a switch, whose last LID is top.
func (n *node) writeTable(table []uint8, top int) error {
	for b := 0; 64*b < len(table); b++ {
		data := [mad.SMPDataLen]byte(table[64*b:])
		if err := n.set(0, mad.AttrLinearTable, uint32(b), &data); err != nil {
			return err
		}
	}
	s := n.soft.SwitchInfo()
	s.LinearFDBTop, s.PortStateChange = uint16(top), true
	var data [mad.SMPDataLen]byte
	s.Put(data[:])
	return n.set(0, mad.AttrSwitchInfo, 0, &data)
}
