package fabric

import (
	"fmt"

	"ciddk/ci"
	"ciddk/sma"
)

// Trace returns the ports that packets from an adapter or a switch to a LID pass, from its own port to the one with the
// LID, as the forwarding tables have it. It sends nothing. Errors: an unknown node; a route that does not arrive, whose
// ports are returned as far as it leads.
func (f *Fabric) Trace(from string, lid ci.LID) (path []*Port, err error) {
	p, err := f.Port(from, 0)
	if err != nil {
		return nil, err
	}
	path = append(path, p)
	for hops := 0; !p.owns(lid); hops++ {
		if p.node.sw != nil {
			base := &p.node.ports[0]
			if base.owns(lid) {
				return append(path, base), nil
			}
			num := p.node.soft.Route(lid)
			out := p.node.port(num)
			if num == 0 || out == nil {
				return path, fmt.Errorf("fabric: switch %q has no route to LID %d", p.Node(), lid)
			}
			path = append(path, out)
			p = out
		} else if hops > 0 {
			return path, fmt.Errorf("fabric: the route to LID %d ends at %q, which does not have it", lid, p.Node())
		}
		next := p.peer.Load()
		if next == nil {
			return path, fmt.Errorf("fabric: the route to LID %d leads to port %d of %q, whose link is down", lid,
				p.num,
				p.Node())
		}
		if hops > maxHops {
			return path, fmt.Errorf("fabric: the route to LID %d is a loop: it passes more than %d switches", lid,
				maxHops)
		}
		path = append(path, next)
		p = next
	}
	return path, nil
}

// TraceMulticast returns the ports of adapters to which packets from an adapter to a multicast LID lead, as the
// forwarding tables have it. It sends and counts nothing. Errors: an unknown node; a switch; a link that is down.
func (f *Fabric) TraceMulticast(from string, mlid ci.LID) (ends []*Port, err error) {
	p, err := f.Port(from, 0)
	if err != nil {
		return nil, err
	}
	first := p.peer.Load()
	if p.node.sw != nil || first == nil {
		return nil, fmt.Errorf("fabric: port %d of %q is a switch's, or its link is down", p.num, from)
	}
	seen := map[*Port]bool{first: true}
	for todo := []*Port{first}; len(todo) > 0; todo = todo[1:] {
		in := todo[0]
		n := in.node
		if n.sw == nil {
			ends = append(ends, in)
			continue
		}
		var mask sma.PortMask
		if !n.soft.MulticastPorts(mlid, &mask) {
			n.defaultPorts(in.num, &mask)
		}
		for num := 1; num < len(n.ports); num++ {
			next := n.ports[num].peer.Load()
			if !mask.Has(uint8(num)) || uint8(num) == in.num || next == nil || seen[next] {
				continue
			}
			seen[next] = true
			todo = append(todo, next)
		}
	}
	return ends, nil
}
