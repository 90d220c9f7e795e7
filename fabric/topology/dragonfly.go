package topology

import "fmt"

// Dragonfly describes groups of switches. The switches of a group are connected with each other, and each pair of
// groups by the same number of links.
type Dragonfly struct {
	Groups int // 0 is Switches*Global + 1, the most that one link for each pair allows
	// Switches is the number of switches of a group, Hosts that of the adapters at a switch, and Global that of the
	// links of a switch to other groups.
	Switches, Hosts, Global int
	Rate                    Rate
}

// Generate returns the dragonfly. Switches are called by group and number, s0-1; their adapters h0-1-1. Errors: numbers
// out of range; more groups than links; more nodes or ports than a subnet or a switch can have.
func (d Dragonfly) Generate() (*Topology, error) {
	if d.Switches < 1 || d.Switches > MaxPorts || d.Hosts < 0 || d.Global < 0 ||
		d.Switches-1+d.Hosts+d.Global > MaxPorts {
		return nil, fmt.Errorf("topology: dragonfly: %d switches in a group, %d adapters and %d global links at a "+
			"switch: "+
			"want at most %d ports", d.Switches, d.Hosts, d.Global, MaxPorts)
	}
	if d.Groups == 0 {
		d.Groups = d.Switches*d.Global + 1
	}
	perPair := 0
	if d.Groups > 1 {
		perPair = d.Switches * d.Global / (d.Groups - 1)
	}
	if d.Groups < 1 || d.Groups > 1 && perPair == 0 {
		return nil, fmt.Errorf("topology: dragonfly: %d groups with %d links each: want 1 to %d groups", d.Groups,
			d.Switches*d.Global, d.Switches*d.Global+1)
	}
	if err := checkSize("dragonfly", d.Groups, d.Switches, d.Hosts+1); err != nil {
		return nil, err
	}
	b := builder{rate: d.Rate}
	switches := make([][]int, d.Groups)
	for g := range switches {
		for s := range d.Switches {
			switches[g] = append(switches[g], b.add(Switch, fmt.Sprintf("s%d-%d", g, s+1)))
		}
	}
	for g, group := range switches {
		for s, sw := range group {
			for h := range d.Hosts {
				b.host(sw, fmt.Sprintf("h%d-%d-%d", g, s+1, h+1))
			}
			for _, peer := range group[:s] {
				b.link(b.take(sw), b.take(peer))
			}
		}
	}
	// The switches of a group take turns with its global links.
	used := make([]int, d.Groups)
	global := func(g int) End {
		k := used[g]
		used[g]++
		return b.take(switches[g][k%d.Switches])
	}
	for range perPair {
		for g := range switches {
			for peer := range g {
				b.link(global(peer), global(g))
			}
		}
	}
	return b.finish()
}
