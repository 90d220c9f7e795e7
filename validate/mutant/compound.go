package mutant

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// compoundPrefix is the beginning of the name of a compound mutant. Its seed and its number follow.
const compoundPrefix = "compound."

// A post is a send request with what a driver knows when it is posted.
type post struct {
	create ci.QPCreate
	wr     ci.SendWR
	index  int // in its list
	list   int // length of the list
	nth    int // requests of the QP so far, with this one
}

// length returns the number of bytes of the request.
func (p *post) length() (n int) {
	for _, s := range p.wr.SGL {
		n += int(s.Length)
	}
	return n + len(p.wr.Inline)
}

// A feature is a property of a request. has reports whether a request has it, and give adds it to one.
type feature struct {
	name string
	has  func(p *post) bool
	give func(p *post)
}

// operations are the features of which a compound mutant has one.
var operations = []feature{
	operation("sends of RC", ci.RC, ci.OpSend), operation("sends of UC", ci.UC, ci.OpSend),
	operation("datagrams", ci.UD, ci.OpSend),
	operation("RDMA WRITEs of RC", ci.RC, ci.OpWrite), operation("RDMA WRITEs of UC", ci.UC, ci.OpWrite),
	operation("RDMA READs", ci.RC, ci.OpRead),
}

func operation(name string, typ ci.QPType, op ci.SendOp) feature {
	return feature{name, func(p *post) bool { return p.create.Type == typ && p.wr.Op == op },
		func(p *post) { p.create.Type, p.wr.Op = typ, op }}
}

// boundaries are the features of which a compound mutant has another one: where sizes, lists and rings begin and end.
var boundaries = []feature{
	flag("with immediate data", ci.SendImmediate), flag("solicited", ci.SendSolicited), flag("fenced", ci.SendFence),
	{"without a completion of their own", func(p *post) bool { return p.wr.Flags&ci.SendSignaled == 0 },
		func(p *post) { p.wr.Flags &^= ci.SendSignaled }},
	{"with inline data", func(p *post) bool { return len(p.wr.Inline) > 0 },
		func(p *post) { p.wr.Inline, p.wr.SGL = make([]byte, 8), nil }},
	segments("of two segments", 2, 2), segments("of three segments or more", 3, 100),
	sized("of one byte", func(n int) bool { return n == 1 }, 1),
	sized("of an odd length", func(n int) bool { return n%2 == 1 }, 77),
	sized("of whole packets", func(n int) bool { return n > 0 && n%1024 == 0 }, 2048),
	sized("of one byte more than whole packets", func(n int) bool { return n > 1 && n%256 == 1 }, 1025),
	{"at the end of a list", func(p *post) bool { return p.list > 1 && p.index == p.list-1 },
		func(p *post) { p.list, p.index = 3, 2 }},
	{"at the end of the ring", func(p *post) bool { return p.create.SendDepth > 0 && p.nth%p.create.SendDepth == 0 },
		func(p *post) { p.create.SendDepth, p.nth = 4, 8 }},
}

func flag(name string, f ci.SendFlags) feature {
	return feature{name, func(p *post) bool { return p.wr.Flags&f != 0 }, func(p *post) { p.wr.Flags |= f }}
}

func segments(name string, least, most int) feature {
	return feature{name, func(p *post) bool { return len(p.wr.SGL) >= least && len(p.wr.SGL) <= most },
		func(p *post) { p.wr.SGL = slices.Repeat([]ci.SGE{{Addr: 64, Length: 16, LKey: 1}}, least) }}
}

func sized(name string, is func(n int) bool, n uint32) feature {
	return feature{name, func(p *post) bool { return is(p.length()) },
		func(p *post) { p.wr.SGL, p.wr.Inline = []ci.SGE{{Addr: 64, Length: n, LKey: 1}}, nil }}
}

// An effect changes a request, if it can.
type effect struct {
	does, breaks string
	change       func(w *ci.SendWR)
}

var effects = []effect{
	{"lose the last byte", "CI-PostSend-01", func(w *ci.SendWR) {
		if n := len(w.SGL); n > 0 && w.SGL[n-1].Length > 0 {
			w.SGL[n-1].Length--
		} else if n := len(w.Inline); n > 0 {
			w.Inline = w.Inline[:n-1]
		}
	}},
	{"begin one byte too late", "CI-PostSend-01", func(w *ci.SendWR) {
		if len(w.SGL) > 0 && w.SGL[0].Length > 0 {
			w.SGL[0].Addr, w.SGL[0].Length = w.SGL[0].Addr+1, w.SGL[0].Length-1
		} else if len(w.Inline) > 0 {
			w.Inline = w.Inline[1:]
		}
	}},
	{"complete when none is requested, or the other way round", "CI-PostSend-01",
		func(w *ci.SendWR) { w.Flags ^= ci.SendSignaled }},
	{"are empty", "CI-PostSend-01", func(w *ci.SendWR) { w.SGL, w.Inline = nil, nil }},
}

// A compound is a fault that shows only when two features come together.
type compound struct {
	operation, boundary feature
	effect              effect
}

// drawCompound draws compound mutant n of a seed.
func drawCompound(seed, n uint64) compound {
	r := rand.New(rand.NewPCG(seed, n))
	for {
		c := compound{operations[r.IntN(len(operations))], boundaries[r.IntN(len(boundaries))],
			effects[r.IntN(len(effects))]}
		if c.isPossible() {
			return c
		}
	}
}

// isPossible reports whether a consumer can post a request with both features. An RDMA READ has no immediate data, no
// inline data and no completion at the peer.
func (c compound) isPossible() bool {
	p := post{}
	c.operation.give(&p)
	c.boundary.give(&p)
	return p.wr.Op != ci.OpRead || len(p.wr.Inline) == 0 && p.wr.Flags&(ci.SendImmediate|ci.SendSolicited) == 0
}

func (c compound) hits(p *post) bool { return c.operation.has(p) && c.boundary.has(p) }

// Compound returns compound mutant n of a seed: a driver whose mistake shows only when two features of a request come
// together. Such a mistake breaks no rule on its own, so that every case that fails catches the mutant.
func Compound(seed, n uint64) Mutant {
	c := drawCompound(seed, n)
	m := Of(fmt.Sprintf("%s%d-%d", compoundPrefix, seed, n), c.effect.breaks,
		fmt.Sprintf("%s %s %s", c.operation.name, c.boundary.name, c.effect.does), c.wrap)
	m.Compound = true
	return m
}

// Compounds returns the first compound mutants of a seed.
func Compounds(seed uint64, number int) *Set {
	s := &Set{}
	for n := range number {
		s.list = append(s.list, Compound(seed, uint64(n)))
	}
	return s
}

// compoundOf returns the compound mutant of a name.
func compoundOf(name string) (Mutant, bool) {
	numbers, isCompound := strings.CutPrefix(name, compoundPrefix)
	first, second, _ := strings.Cut(numbers, "-")
	seed, err := strconv.ParseUint(first, 10, 64)
	n, err2 := strconv.ParseUint(second, 10, 64)
	if !isCompound || err != nil || err2 != nil {
		return Mutant{}, false
	}
	return Compound(seed, n), true
}

// wrap returns an HCA with the fault.
func (c compound) wrap(h ci.HCA) ci.HCA {
	return tap.QP(func(q ci.QP, create ci.QPCreate) ci.QP {
		return &compoundQP{QP: ciwrap.QP{QP: q}, compound: c, create: create}
	})(h)
}

type compoundQP struct {
	ciwrap.QP
	compound
	create ci.QPCreate
	nth    atomic.Int64
}

func (q *compoundQP) PostSend(wrs []ci.SendWR) (int, error) {
	out := tap.CopySends(wrs)
	nth := int(q.nth.Load())
	for i := range out {
		p := post{q.create, out[i], i, len(out), nth + i + 1}
		if q.hits(&p) {
			q.effect.change(&out[i])
		}
	}
	n, err := q.QP.PostSend(out)
	q.nth.Add(int64(n))
	return n, err
}
