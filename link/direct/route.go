package direct

import (
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// route is a compiled address.
type route struct {
	from   *Port
	dlid   ci.LID
	sl     ci.SL
	bits   uint8 // of the source LID
	global bool
	grh    wire.GRH // without length
	last   atomic.Pointer[routeHit]
}

// routeHit remembers a look-up for as long as the link's table is the same.
type routeHit struct {
	table *lidTable
	to    *Port
}

// Peer returns the destination's LID: within a subnet LIDs tell ports apart, with a GRH or without.
func (r *route) Peer() rvt.Addr { return rvt.Addr{LID: r.dlid} }

// Local returns the source GID of the GRH. It is zero without one.
func (r *route) Local() ci.GID { return r.grh.SGID }

// Route compiles an address: a LID, or with a GRH only and a link-local or own-subnet DGID, the LID of the port that
// has it. Multicast needs its GRH, which names the group.
func (p *Port) Route(av *ci.AVAttr, _ rvt.Flow) (rvt.Route, error) {
	const verb = "Port.Route"
	bad := func(s ci.Status, format string, args ...any) (rvt.Route, error) {
		return nil, &ci.Error{Verb: verb, Status: s, Detail: fmt.Sprintf(format, args...)}
	}
	_, lmc := p.lids()
	r := &route{from: p, dlid: av.DLID, sl: av.SL, bits: av.PathBits & (1<<lmc - 1), global: av.Global}
	if av.Global {
		sgid, ok := p.gid(av.GRH.SGIDIndex)
		if !ok {
			return bad(ci.InvalidIndex, "source GID index %d is not in use", av.GRH.SGIDIndex)
		}
		r.grh = wire.GRH{TrafficClass: av.GRH.TrafficClass, FlowLabel: av.GRH.FlowLabel, HopLimit: av.GRH.HopLimit,
			NextHeader: wire.NextHeaderIBA, SGID: sgid, DGID: av.GRH.DGID}
		if r.dlid == 0 {
			to := p.link.byGID(av.GRH.DGID)
			if to == nil {
				return bad(ci.InvalidParameter, "DLID 0, and no port of the link has the GID %x", av.GRH.DGID)
			}
			r.dlid, _ = to.lids()
		}
	}
	switch {
	case r.dlid == 0:
		return bad(ci.InvalidParameter, "DLID 0 names no port")
	case r.dlid >= firstMulticastLID && r.dlid != permissiveLID && !(av.Global && av.GRH.DGID[0] == 0xff):
		return bad(ci.InvalidParameter, "multicast DLID %#x without a GRH that names the group", r.dlid)
	}
	return r, nil
}

// to returns the port that packets of a route go to, or nil. A permissive DLID (QP0) goes to the other end of a link of
// two.
func (r *route) to() *Port {
	t := r.from.link.now()
	if h := r.last.Load(); h != nil && h.table == t {
		return h.to
	}
	to := t.byLID[r.dlid]
	if r.dlid == permissiveLID && len(t.all) == 2 {
		if to = t.all[0]; to == r.from {
			to = t.all[1]
		}
	}
	r.last.Store(&routeHit{t, to})
	return to
}
