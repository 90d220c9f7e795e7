package cmid

import (
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/mad"
)

// stands lists which of some addresses a bound address covers.
func stands(a netip.Addr, only6 bool) (list []netip.Addr) {
	for _, s := range []string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2", "fe80::1%a", "fe80::1%b"} {
		b := netip.MustParseAddr(s)
		isAny := !a.IsValid() || a == netip.IPv6Unspecified()
		if isAny && (b.Is6() || !only6) || a == netip.IPv4Unspecified() && b.Is4() || a == b ||
			a.IsValid() && a == b.WithZone("") {
			list = append(list, b)
		}
	}
	return list
}

// TestPortTable compares the table with a model that checks every address: a binding that is rejected would share a
// port with another one, and a binding that succeeds does not.
func TestPortTable(t *testing.T) {
	addrs := []netip.Addr{{}, netip.IPv6Unspecified(), netip.IPv4Unspecified(), netip.MustParseAddr("10.0.0.1"),
		netip.MustParseAddr("::ffff:10.0.0.2"),
		netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::1%a"),
		netip.MustParseAddr("fe80::1%b")}
	type taken struct {
		b         Binding
		addr      netip.Addr
		only6     bool
		reuse     bool
		listening bool
	}
	rapid.Check(t, func(t *rapid.T) {
		table, err := NewPortTable([2]uint16{100, 103}, func() uint64 { return rapid.Uint64().Draw(t, "random") })
		require.NoError(t, err)
		model := map[spacePort][]*taken{}
		clash := func(k spacePort, x *taken) bool {
			return slices.ContainsFunc(model[k], func(y *taken) bool {
				if x == y || x.reuse && y.reuse && !x.listening && !y.listening {
					return false
				}
				return slices.ContainsFunc(stands(x.addr, x.only6),
					func(a netip.Addr) bool { return slices.Contains(stands(y.addr, y.only6), a) })
			})
		}
		space := rapid.SampledFrom([]mad.PortSpace{TCP, UDP})
		t.Repeat(map[string]func(*rapid.T){
			"bind": func(t *rapid.T) {
				x := &taken{addr: rapid.SampledFrom(addrs).Draw(t, "addr").Unmap(),
					only6: rapid.Bool().Draw(t, "IPv6 only"), reuse: rapid.Bool().Draw(t, "reuse")}
				k := spacePort{space.Draw(t, "space"), rapid.SampledFrom([]uint16{0, 100, 101, 500}).Draw(t, "port")}
				b, err := table.Bind(k.space, netip.AddrPortFrom(canonical(x.addr, x.only6), k.port), x.reuse)
				if k.port == 0 {
					free := false
					for p := uint16(100); p <= 103; p++ {
						y := *x
						y.reuse = false
						free = free || !clash(spacePort{k.space, p}, &y)
					}
					require.Equal(t, free, err == nil, "bind fails only if no port is free: %v", err)
					if err != nil {
						require.ErrorIs(t, err, syscall.EADDRINUSE)
						return
					}
					require.True(t, b.Port() >= 100 && b.Port() <= 103)
					k.port = b.Port()
					y := *x
					y.reuse = false
					require.False(t, clash(k, &y), "a port that is chosen here is not shared")
				} else {
					require.Equal(t, clash(k, x), err != nil)
					if err != nil {
						require.ErrorIs(t, err, syscall.EADDRINUSE)
						return
					}
				}
				x.b = b
				model[k] = append(model[k], x)
			},
			"listen": func(t *rapid.T) {
				k, x := pick(t, model)
				if x == nil || x.listening {
					t.Skip("nothing is bound")
				}
				x.listening = true
				c := clash(k, x)
				require.Equal(t, c, x.b.Listen() != nil)
				x.listening = !c
			},
			"release": func(t *rapid.T) {
				k, x := pick(t, model)
				if x == nil {
					t.Skip("nothing is bound")
				}
				x.b.Release()
				x.b.Release() // again, which has no effect
				model[k] = slices.DeleteFunc(model[k], func(y *taken) bool { return x == y })
				if len(model[k]) == 0 {
					delete(model, k)
				}
			},
			"": func(t *rapid.T) { require.Len(t, table.taken, len(model), "released ports are not in the table") },
		})
	})
}

func pick[T any](t *rapid.T, m map[spacePort][]T) (k spacePort, x T) {
	type entry struct {
		k spacePort
		x T
	}
	var all []entry
	for _, space := range []mad.PortSpace{TCP, UDP} {
		for _, p := range []uint16{100, 101, 102, 103, 500} {
			for _, x := range m[spacePort{space, p}] {
				all = append(all, entry{spacePort{space, p}, x})
			}
		}
	}
	if len(all) == 0 {
		return k, x
	}
	e := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
	return e.k, e.x
}

func TestPortTableRange(t *testing.T) {
	for _, r := range [][2]uint16{{0, 5}, {7, 6}} {
		_, err := NewPortTable(r, nil)
		assert.Error(t, err)
	}
	table, err := NewPortTable([2]uint16{}, func() uint64 { return 1 << 63 })
	require.NoError(t, err)
	b, err := table.Bind(TCP, netip.AddrPort{}, false)
	require.NoError(t, err)
	assert.True(t, b.Port() >= 32768 && b.Port() <= 60999, "%d", b.Port())
}
