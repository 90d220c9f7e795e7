package fabric

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/wire"
)

// route is a compiled address.
type route struct {
	from   *CAPort
	local  ci.QPN // of a connection
	dlid   ci.LID
	sl     ci.SL
	bits   uint8 // of the source LID
	global bool
	grh    wire.GRH // without length
}

// Peer returns the destination's LID: within a subnet LIDs tell ports apart, with a GRH or without.
func (r *route) Peer() rvt.Addr { return rvt.Addr{LID: r.dlid} }

// Local returns the source GID of the GRH. It is zero without one.
func (r *route) Local() ci.GID { return r.grh.SGID }

func (r *route) isMulticast() bool { return r.dlid >= firstMulticastLID && r.dlid != permissiveLID }

// Route compiles an address: a LID, or with a GRH only and a DGID of the subnet, the LID of the port that has it.
// Multicast needs its GRH, which names the group.
func (c *CAPort) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) {
	const verb = "Port.Route"
	bad := func(s ci.Status, format string, args ...any) (rvt.Route, error) {
		return nil, &ci.Error{Verb: verb, Status: s, Detail: fmt.Sprintf(format, args...)}
	}
	r := &route{from: c, local: f.Local, dlid: av.DLID, sl: av.SL,
		bits: av.PathBits & (1<<c.port.fast.load().lmc() - 1), global: av.Global}
	if av.Global {
		sgid, ok := c.gid(av.GRH.SGIDIndex)
		if !ok {
			return bad(ci.InvalidIndex, "source GID index %d is not in use", av.GRH.SGIDIndex)
		}
		r.grh = wire.GRH{TrafficClass: av.GRH.TrafficClass, FlowLabel: av.GRH.FlowLabel, HopLimit: av.GRH.HopLimit,
			NextHeader: wire.NextHeaderIBA, SGID: sgid, DGID: av.GRH.DGID}
		if r.dlid == 0 {
			to := c.port.node.fabric.portByGID(av.GRH.DGID)
			if to == nil {
				return bad(ci.InvalidParameter, "DLID 0, and no port of the subnet has the GID %x", av.GRH.DGID)
			}
			r.dlid = to.fast.load().lid()
		}
	}
	switch {
	case r.dlid == 0:
		return bad(ci.InvalidParameter, "DLID 0 names no port")
	case r.isMulticast() && !(av.Global && av.GRH.DGID[0] == 0xff):
		return bad(ci.InvalidParameter, "multicast DLID %#x without a GRH that names the group", r.dlid)
	}
	return r, nil
}

// portByGID returns the port with a GID, or nil.
func (f *Fabric) portByGID(g ci.GID) *Port {
	f.mu.Lock()
	nodes := f.nodes
	f.mu.Unlock()
	for _, n := range nodes {
		for i := range n.ports {
			p := &n.ports[i]
			info, _ := n.soft.PortInfo(p.num)
			for _, guid := range n.soft.GUIDs(p.num) {
				if guid != 0 && ci.GID(mad.GID(info.GIDPrefix, uint64(guid))) == g {
					return p
				}
			}
		}
	}
	return nil
}

// address sets the addresses of a packet as its receiver sees them.
func (r *route) address(p *rvt.Packet, to *Port) {
	p.Src.LID, p.Dst.LID = r.slid(), r.dlid // the engine's packets come without addresses
	p.SL, p.PathBits = r.sl, 0
	if !r.isMulticast() {
		p.PathBits = uint8(r.dlid) & (1<<to.fast.load().lmc() - 1)
	}
	if r.global {
		p.Dst.GID = r.grh.DGID
	}
}

// slid returns the source LID of the route.
func (r *route) slid() ci.LID { return r.from.port.fast.load().lid() | ci.LID(r.bits) }

// putGRH writes the GRH of a datagram.
func (r *route) putGRH(b []byte, p *rvt.Packet) {
	op := wire.UDSendOnly
	if p.HasImm {
		op = wire.UDSendOnlyImm
	}
	g := r.grh
	g.PayloadLen = uint16(wire.PacketLen(op, int(p.Len)))
	g.Put(b)
}
