package resolve

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/ci"
)

// TestZones checks that the zone of a link-local address selects among ports that have the same address, and that no
// port of another interface reaches it.
func TestZones(t *testing.T) {
	var list []Source
	for i, at := range []string{"rail0", "rail1"} {
		a := netip.MustParseAddr("fe80::1")
		gids := []ci.GIDEntry{{GID: address.GIDOf(a), Interface: at}}
		list = append(list, Source{GID: address.GIDOf(a), GIDIndex: uint16(i), Addr: address.Zoned(a, gids, 0)})
	}
	for to, want := range map[string]int{"fe80::1": 0, "fe80::1%rail0": 0, "fe80::1%rail1": 1, "fe80::1%rail2": -1,
		"fe80::1%7": -1} {
		s, ok := own(list, netip.MustParseAddr(to))
		assert.Equal(t, want >= 0, ok, to)
		if ok {
			assert.EqualValues(t, want, s.GIDIndex, to)
		}
	}
	for to, want := range map[string]int{"fe80::2": 0, "fe80::2%rail1": 1, "fe80::2%rail2": -1} {
		s, ok := closest(list, netip.MustParseAddr(to))
		assert.Equal(t, want >= 0, ok, to)
		if ok {
			assert.EqualValues(t, want, s.GIDIndex, to)
		}
	}
}
