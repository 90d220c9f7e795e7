package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Torus describes switches in a grid of any number of dimensions whose rows are closed to rings, with adapters at each
// switch.
type Torus struct {
	Size  []int // switches in each dimension
	Hosts int   // adapters of each switch
	Mesh  bool  // rows are not closed
	Rate  Rate
}

// Generate returns the torus. Switches are called by their coordinates, s0-0; their adapters h0-0-1. Ports 1 and 2 of a
// switch go up and down in the first dimension, 3 and 4 in the second, and so on; the adapters follow. A row of two
// switches has one link. Errors: numbers out of range; more nodes or ports than a subnet or a switch can have.
func (t Torus) Generate() (*Topology, error) {
	if len(t.Size) == 0 || len(t.Size) > 6 {
		return nil, fmt.Errorf("topology: torus: %d dimensions: want 1 to 6", len(t.Size))
	}
	if t.Hosts < 0 || 2*len(t.Size)+t.Hosts > MaxPorts {
		return nil, fmt.Errorf("topology: torus: %d adapters at a switch: want 0 to %d", t.Hosts,
			MaxPorts-2*len(t.Size))
	}
	if err := checkSize("torus", append(slices.Clone(t.Size), t.Hosts+1)...); err != nil {
		return nil, err
	}
	b := builder{rate: t.Rate}
	count := product(t.Size)
	switches := make([]int, count)
	for i := range count {
		switches[i] = b.add(Switch, "s"+coordinates(digits(i, t.Size)))
		b.next[switches[i]] = 2*len(t.Size) + 1
	}
	for i := range count {
		for k, size := range t.Size {
			d := digits(i, t.Size)
			d[k]++
			if d[k] == size {
				if size <= 2 || t.Mesh {
					continue
				}
				d[k] = 0
			}
			b.link(End{switches[i], 2*k + 1}, End{switches[number(d, t.Size)], 2*k + 2})
		}
	}
	for i, s := range switches {
		for h := range t.Hosts {
			b.host(s, fmt.Sprintf("h%s-%d", coordinates(digits(i, t.Size)), h+1))
		}
	}
	return b.finish()
}

// coordinates formats coordinates for names of nodes.
func coordinates(d []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(d), "[]"), " ", "-")
}
