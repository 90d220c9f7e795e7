package explore

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/internal/model"
)

// group returns the address of multicast group n for the adapters. On Ethernet it has the family of the port's GID and
// is derived from it, so that runs on one machine use different groups.
func (r *Run) group(s *side, n int) (ci.GID, ci.LID) {
	g := ci.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 12: 0x66, 15: byte(n)}
	if s.port.Link != ci.LinkEthernet {
		return g, 0xc100 + ci.LID(n)
	}
	a := r.sides[0]
	own := a.port.GIDs[r.address(a, r.sides[1]).GRH.SGIDIndex].GID
	if isV4(own) {
		return ci.GID{10: 0xff, 11: 0xff, 12: 225 + byte(n%8), 13: own[13], 14: own[14], 15: own[15]}, 0
	}
	copy(g[4:12], own[8:])
	return g, 0
}

func isGroup(a ci.AVAttr) bool {
	return a.Global && (a.GRH.DGID[0] == 0xff || isV4(a.GRH.DGID) && a.GRH.DGID[12]>>4 == 0xe)
}

// Attach attaches a QP to a multicast group.
type Attach struct{ As, QP, Group int }

func (s Attach) String() string {
	return fmt.Sprintf("attach QP %d to multicast group %d as %d", s.QP, s.Group, s.As)
}

func (s Attach) run(r *Run) *model.Violation {
	o, ok := get[*qpObj](r, s.QP)
	if !ok || !o.s.attr.Caps.Has(ci.CapMulticast) {
		return nil
	}
	gid, lid := r.group(o.s, s.Group)
	d, err := o.d.AttachMcast(ci.McastAttach{GID: gid, LID: lid})
	m, v := o.m.AttachMcast(gid, err)
	if m != nil {
		r.put(s.As, &mcastObj{d, m})
	}
	return v
}

// member attaches a QP to a group, and has another QP send to it.
func (g *gen) member() Step {
	if !g.r.sides[0].attr.Caps.Has(ci.CapMulticast | ci.CapUD | ci.CapAV) {
		return nil
	}
	n := g.one(g.qps(func(o *qpObj) bool {
		return o.m.Type == ci.UD && o.m.State == ci.QPRTS || g.chance(3)
	}))
	o := g.obj(n)
	if o == nil || o.peer == 0 || g.isInside(o) || g.obj(o.peer) == nil {
		return nil
	}
	p := g.obj(o.peer)
	group, av := 1+g.IntN(2), g.name()
	pd := p.pd
	var list []Step
	if g.chance(50) { // behind a member that takes no datagram
		x := NewQP{g.name(), o.pd, o.sendCQ, o.recv, QPOptions{Type: ci.UD, Depth: 1, SGEs: 1}}
		f, a := pick(g, ci.ToReset, ci.ToError)()
		list = append(list, x, Modify{x.As, f, a}, Attach{g.name(), x.As, group})
	}
	list = append(list, Attach{g.name(), n, group})
	if g.chance(20) {
		list = append(list, Attach{g.name(), n, pick(g, group, 3-group)})
	}
	list = append(list, NewAV{av, pd, o.s.index, Vector{Group: group}})
	for range 2 {
		list = append(list, Later{func(g *gen) Step { return g.recvTo(n) }}, Later{func(g *gen) Step {
			room, _ := p.m.Room()
			if p.m.Dead || p.m.State != ci.QPRTS || room < 1 || g.mixes(p, group) || o.m.Dead {
				return nil
			}
			w := WR{Op: ci.OpSend, Flags: ci.SendSignaled | pick(g, 0, ci.SendImmediate, ci.SendSolicited),
				Imm: g.Uint32(), SGL: []Piece{g.zone(p, 0, pick(g, 0, 1, 100))}, AV: av, To: n,
				QKey: pick(g, theQKey, theQKey, theQKey+1)}
			return Send{QP: o.peer, WRs: []WR{w}}
		}})
		if m := names(g.r, func(x *mcastObj) bool { return !x.m.Dead }); len(m) > 0 && g.chance(50) {
			list = append(list, Destroy{g.one(m)})
		}
	}
	g.pend = append(g.pend, list[1:]...)
	return list[0]
}

// mixes reports whether members of a group are at the sender's adapter, or may have too short a receive. An Ethernet
// port need not hear its own frames.
func (g *gen) mixes(from *qpObj, group int) bool {
	gid, _ := g.r.group(from.s, group)
	return slices.ContainsFunc(from.m.CA.Members(gid), func(*model.QP) bool { return true }) ||
		slices.ContainsFunc(g.r.w.CAs, func(c *model.CA) bool {
			return slices.ContainsFunc(c.Members(gid), func(q *model.QP) bool { return q.Loose || q.Shortest(1) < 140 })
		})
}
