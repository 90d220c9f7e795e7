package frame

import (
	"net/netip"
	"slices"

	"ciddk/ci"
)

// gidTable is a snapshot of the GID table. It does not change.
type gidTable struct {
	list []ci.GIDEntry
	own  map[gidKey]bool
}

type gidKey struct {
	gid ci.GID
	typ ci.GIDType
}

func newGIDTable(list []ci.GIDEntry) *gidTable {
	t := &gidTable{list: slices.Clone(list), own: map[gidKey]bool{}}
	for _, e := range list {
		if e.GID != (ci.GID{}) {
			t.own[gidKey{e.GID, e.Type}] = true
		}
	}
	return t
}

// has reports whether packets of a type for a GID are the port's.
func (t *gidTable) has(gid ci.GID, typ ci.GIDType) bool { return t.own[gidKey{gid, typ}] }

// hasAddr reports whether an IP address is the port's.
func (t *gidTable) hasAddr(a netip.Addr) bool {
	gid := ci.GID(a.As16())
	return t.has(gid, ci.GIDRoCEv2) || t.has(gid, ci.GIDRoCEv1)
}

// addrOf returns the IP address that a GID represents.
func addrOf(g ci.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// firstOf returns the port's first address of a family, for requests in its name.
func (t *gidTable) firstOf(is4 bool) (netip.Addr, bool) {
	for _, e := range t.list {
		if a := addrOf(e.GID); e.GID != (ci.GID{}) && a.Is4() == is4 {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// groupMAC returns the MAC address of a multicast group (RFC 1112, 6.4; RFC 2464, 7).
func groupMAC(a netip.Addr) [6]byte {
	b := a.AsSlice()
	if a.Is4() {
		return [6]byte{0x01, 0x00, 0x5e, b[1] & 0x7f, b[2], b[3]}
	}
	return [6]byte{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// embeddedMAC returns the MAC address that a link-local address was made of (RFC 4291, appendix A).
func embeddedMAC(a netip.Addr) (mac [6]byte, ok bool) {
	b := a.As16()
	if !a.Is6() || !a.IsLinkLocalUnicast() || b[11] != 0xff || b[12] != 0xfe {
		return mac, false
	}
	return [6]byte{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}, true
}

// LinkLocalGID returns the GID that every RoCE port has: the link-local address made of its MAC.
func LinkLocalGID(mac [6]byte) ci.GID {
	return ci.GID{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4],
		15: mac[5]}
}
