package topology

import (
	"fmt"
	"slices"
)

// FatTree describes an extended generalized fat tree: adapters at level 0, and one level of switches for each entry of
// Down. A switch of level i has Down[i-1] children. A node of level i-1 has Up[i-1] parents.
//
// A tree with Down {4, 2} and Up {1, 2} has 8 adapters, 2 leaf switches with 4 adapters each, and 2 spine switches, to
// both of which each leaf is connected.
type FatTree struct {
	Down, Up []int
	Rate     Rate
}

// Generate returns the tree. Adapters are called h1, h2, …; switches are called s, level, number: s1-1. Errors: Down
// and Up of different lengths, empty, or with numbers out of range; more nodes or ports than a subnet or a switch can
// have.
func (f FatTree) Generate() (*Topology, error) {
	levels := len(f.Down)
	if levels == 0 || len(f.Up) != levels {
		return nil, fmt.Errorf("topology: fat tree: %d numbers of children, %d of parents: want one each for every "+
			"level",
			levels, len(f.Up))
	}
	if levels > 8 {
		return nil, fmt.Errorf("topology: fat tree: %d levels: want at most 8", levels)
	}
	total := 0
	for l := 0; l <= levels; l++ {
		if err := checkSize("fat tree", f.radix(l)...); err != nil {
			return nil, err
		}
		total += product(f.radix(l))
	}
	if total > maxGenerated {
		return nil, fmt.Errorf("topology: fat tree: %d nodes: want at most %d", total, maxGenerated)
	}
	for l := 1; l <= levels; l++ {
		ports := f.Down[l-1]
		if l < levels {
			ports += f.Up[l]
		}
		if ports > MaxPorts {
			return nil, fmt.Errorf("topology: fat tree: a switch of level %d needs %d ports: want at most %d", l,
				ports, MaxPorts)
		}
	}
	b := builder{rate: f.Rate}
	var below []int
	for l := 0; l <= levels; l++ {
		radix := f.radix(l)
		nodes := make([]int, product(radix))
		for i := range nodes {
			if l == 0 {
				nodes[i] = b.add(CA, fmt.Sprintf("h%d", i+1))
			} else {
				nodes[i] = b.add(Switch, fmt.Sprintf("s%d-%d", l, i+1))
			}
		}
		if l > 0 {
			f.connect(&b, l, below, nodes)
		}
		below = nodes
	}
	return b.finish()
}

// radix returns the number of values of each digit in the labels of level l. Digit i-1 stands for level i: below l for
// the choice among parents, from l on for the choice among children.
func (f FatTree) radix(l int) []int { return append(slices.Clone(f.Up[:l]), f.Down[l:]...) }

// connect joins the nodes of level l-1 with those of level l whose labels differ in the digit of level l alone.
func (f FatTree) connect(b *builder, l int, below, above []int) {
	lower, upper := f.radix(l-1), f.radix(l)
	for i, node := range above {
		d := digits(i, upper)
		for c := range f.Down[l-1] {
			d[l-1] = c
			child := below[number(d, lower)]
			b.link(b.take(node), End{child, b.next[child]})
			b.next[child]++
		}
	}
}

func product(factors []int) int {
	n := 1
	for _, f := range factors {
		n *= f
	}
	return n
}

// digits returns the digits of n, the first one least significant.
func digits(n int, radix []int) []int {
	d := make([]int, len(radix))
	for i, r := range radix {
		d[i] = n % r
		n /= r
	}
	return d
}

// number is the inverse of digits.
func number(d, radix []int) int {
	n := 0
	for i, v := range slices.Backward(d) {
		n = n*radix[i] + v
	}
	return n
}
