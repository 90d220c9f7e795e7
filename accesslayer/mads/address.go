package mads

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
)

// grhArea is the size of the area before every received datagram: a GRH, or 20 unused bytes and an IPv4 header.
const grhArea = 40

// Hop limits of responses: 0xff on InfiniBand (IBTA volume 1, 13.5.4.2), and the usual one on IP.
const hopsInfiniBand, hopsIP = 0xff, 64

// peer identifies the origin or the destination of a datagram, for comparing responses with requests. It is the GID if
// there is a GRH, and on InfiniBand also the base LID. The zero value matches any peer.
type peer struct {
	lid ci.LID
	gid ci.GID
}

// peerOf returns the peer of an address. LIDs are compared without the bits of this port's LMC, as if all ports of the
// subnet had the same LMC.
func (p *port) peerOf(av *ci.AVAttr) (id peer) {
	if av.Global {
		id.gid = av.GRH.DGID
		if isMulticast(id.gid) {
			return peer{}
		}
	}
	if p.link != ci.LinkEthernet {
		if av.DLID >= firstMulticastLID {
			return peer{}
		}
		id.lid = av.DLID &^ (1<<p.attr().LMC - 1)
	}
	return id
}

const firstMulticastLID = 0xc000

// source sets the address that a datagram came from, to which a response is sent (IBTA volume 1, 13.5.4), and the GIDs
// of its GRH. It reports false if the datagram has no valid source.
func (e *endpoint) source(wc *ci.WC, grh []byte, r *Received) bool {
	p := e.p
	r.Port = p.id
	r.From = Address{QPN: wc.SrcQP, PKeyIndex: wc.PKeyIndex}
	r.From.AV.Port = p.id.Num
	if e.num == 1 {
		r.From.QKey = ci.QKey(mad.QKeyGSI)
	}
	if p.link != ci.LinkEthernet {
		if wc.SLID == 0 && e.num == 0 { // from a port without a LID: reply along the same route
			wc.SLID = permissiveLID
		}
		if wc.SLID >= firstMulticastLID && wc.SLID != permissiveLID || e.num == 1 &&
			(wc.SLID == 0 || wc.SLID == permissiveLID) {
			return false
		}
		r.From.AV.SL, r.From.AV.PathBits, r.From.AV.DLID = wc.SL, wc.PathBits, wc.SLID
	}
	if wc.Flags&ci.WCGRH == 0 {
		return p.link != ci.LinkEthernet
	}
	g := ci.GRH{HopLimit: hopsIP}
	switch {
	case grh[0]>>4 == 6: // a GRH or an IPv6 header, which have the same layout (8.3)
		copy(r.SGID[:], grh[8:24])
		copy(r.DGID[:], grh[24:40])
		g.TrafficClass = grh[0]<<4 | grh[1]>>4
		g.FlowLabel = uint32(grh[1]&15)<<16 | uint32(grh[2])<<8 | uint32(grh[3])
	case p.link == ci.LinkEthernet && grh[20]>>4 == 4: // an IPv4 header in the last 20 bytes (annex A17)
		v4 := func(b []byte) (g ci.GID) {
			g[10], g[11] = 0xff, 0xff
			copy(g[12:], b)
			return g
		}
		r.SGID, r.DGID = v4(grh[32:36]), v4(grh[36:40])
		g.TrafficClass = grh[21]
	default:
		return false
	}
	if isMulticast(r.SGID) || r.SGID == (ci.GID{}) {
		return false
	}
	r.GRH = true
	if p.link != ci.LinkEthernet {
		g.HopLimit = hopsInfiniBand
	}
	g.DGID = r.SGID
	index, ok := p.gidIndex(r.DGID)
	if !ok {
		// The datagram was sent to a group, or to an entry that was replaced meanwhile. The first entry always exists.
		if p.link == ci.LinkEthernet && !isMulticast(r.DGID) {
			return false
		}
		index = 0
	}
	g.SGIDIndex = index
	r.From.AV.Global, r.From.AV.GRH = true, g
	return true
}

// isMulticast reports whether g is a multicast GID, of IPv4 too.
func isMulticast(g ci.GID) bool {
	return g[0] == 0xff || v4Mapped == [12]byte(g[:12]) && g[12]&0xf0 == 0xe0
}

var v4Mapped = [12]byte{10: 0xff, 11: 0xff}

// gidIndex returns the index of one of the port's GIDs. Of two entries with the same GID it returns the one of RoCEv2.
func (p *port) gidIndex(gid ci.GID) (index uint16, ok bool) {
	for i, e := range p.attr().GIDs {
		if e.GID == gid && (!ok || e.Type == ci.GIDRoCEv2) {
			if index, ok = uint16(i), true; e.Type != ci.GIDRoCEv1 {
				return index, true
			}
		}
	}
	return index, ok
}

// check returns an error for an address that cannot be valid. An invalid address that check does not find stops the
// send queue until the QP has recovered.
func (e *endpoint) check(verb string, to *Address) error {
	p := e.p
	attr := p.attr()
	bad := func(format string, args ...any) error {
		return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
	}
	switch av := &to.AV; {
	case av.Port != 0 && av.Port != p.id.Num:
		return &ci.Error{Verb: verb, Status: ci.InvalidPort, Detail: fmt.Sprintf("To.AV.Port is %d, but the agent is "+
			"on port %d", av.Port, p.id.Num)}
	case to.QPN > 0xffffff:
		return bad("To.QPN %#x has more than 24 bits", uint32(to.QPN))
	case e.num == 1 && (int(to.PKeyIndex) >= len(attr.PKeys) || attr.PKeys[to.PKeyIndex]&0x7fff == 0):
		return bad("To.PKeyIndex %d: the entry has no P_Key", to.PKeyIndex)
	case p.link == ci.LinkEthernet && !av.Global:
		return bad("To.AV is not Global, as Ethernet requires")
	case av.Global && (int(av.GRH.SGIDIndex) >= len(attr.GIDs) || attr.GIDs[av.GRH.SGIDIndex].GID == ci.GID{}):
		return bad("To.AV.GRH.SGIDIndex %d: the port has no such GID", av.GRH.SGIDIndex)
	case av.Global && av.GRH.DGID == ci.GID{}:
		return bad("To.AV.GRH.DGID is zero")
	case !av.Global && av.DLID == 0:
		return bad("To.AV has neither DLID nor GRH")
	}
	return nil
}
