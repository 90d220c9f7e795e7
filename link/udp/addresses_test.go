package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

// needManyAddresses skips the test on systems where only one address of loopback can be bound.
func needManyAddresses(t testing.TB) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("only 127.0.0.1 is an address of this machine")
	}
}

// addrsOf returns the addresses in a port's GID table, the zero address for entries that are empty.
func addrsOf(p *Port) (out []netip.Addr) {
	for _, e := range p.Attr().GIDs {
		a := netip.Addr{}
		if e.GID != (ci.GID{}) {
			a = rocev2.AddrOf(e.GID)
		}
		out = append(out, a)
	}
	return out
}

// TestSeveralAddresses checks that packets arrive at every address of a port and leave from every one.
func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	needManyAddresses(t)
	for _, s := range sockets {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			more := func() []netip.Addr { return []netip.Addr{linktest.Addr(), linktest.Addr()} }
			a, _ := openTest(t, Config{Addrs: more(), Portable: s.portable[0]})
			b, rb := openTest(t, Config{Addrs: more(), Portable: s.portable[1], SourcePorts: 2})
			from, to := addrsOf(a), addrsOf(b)
			require.Len(t, from, 3)
			for i := range from {
				assert.NotEmpty(t, a.Attr().GIDs[i].Interface)
				for k := range to {
					av := &ci.AVAttr{Global: true, GRH: ci.GRH{DGID: rocev2.GIDOf(to[k]), SGIDIndex: uint16(i)}}
					rt, err := a.Route(av, rvt.Flow{})
					require.NoError(t, err)
					psn := ci.PSN(3*i + k)
					a.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpAcknowledge, N: 1, PSN: psn, Route: rt}})
					pkt := rb.Packets(t, 1)[0]
					require.Equal(t, psn, pkt.PSN)
					require.Equal(t, rocev2.GIDOf(from[i]), pkt.Src.GID)
					require.Equal(t, rocev2.GIDOf(to[k]), pkt.Dst.GID)
				}
			}
		})
	}
}

// TestBothFamilies runs all operations between ports that have an IPv4 and an IPv6 address, from either.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	needManyAddresses(t)
	p6, _ := openTest6(t, 14811, false) // or skips
	require.NoError(t, p6.Close())
	a := linktest.Open(t, ci.RC, 1<<20,
		mustNew(t, Config{Addr: linktest.Addr(), Addrs: []netip.Addr{netip.IPv6Loopback()}, Port: 14811}))
	b := linktest.Open(t, ci.RC, 1<<20, mustNew(t, Config{Addr: linktest.Addr(), Port: 14811}))
	linktest.ConnectBoth(a, b)
	linktest.Exercise(t, a, b)

	// A QP that talks to itself over the IPv6 address.
	c := linktest.Open(t, ci.RC, 1<<20,
		mustNew(t, Config{Addr: linktest.Addr(), Addrs: []netip.Addr{netip.IPv6Loopback()}, Port: 14812}))
	c.GID = 1
	c.Connect(c)
	linktest.Fill(c.Buf[:1000], 5)
	c.Send(ci.SendWR{ID: 1, Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: c.SGE(0, 1000),
		Remote: c.MR.Region().Remote(5000)})
	c.Poll(1)
	require.Equal(t, c.Buf[:1000], c.Buf[5000:6000])
}

func mustNew(t testing.TB, c Config) *Port {
	p, err := New(c)
	require.NoError(t, err)
	return p
}

// fakeAddresses is an AddressSource that a test changes.
type fakeAddresses struct {
	mu      sync.Mutex
	list    []netip.Addr
	err     error
	silent  bool // Watch is not supported
	watch   error
	changed func()
	looks   int
}

func (f *fakeAddresses) Addresses(string) ([]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return slices.Clone(f.list), f.err
}

func (f *fakeAddresses) Watch(changed func()) (func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		return nil, errors.ErrUnsupported
	}
	f.changed = changed
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed = nil
	}, f.watch
}

// set changes the addresses and reports the change, unless the source is silent.
func (f *fakeAddresses) set(err error, list ...netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list, f.err = list, err
	if f.changed != nil {
		f.changed()
	}
}

// waitTable waits until the GID table of p is want.
func waitTable(t *testing.T, r *linktest.Collector, p *Port, want ...netip.Addr) {
	t.Helper()
	r.Wait(t, fmt.Sprint("the table ", want), func(*linktest.Collector) bool { return slices.Equal(want, addrsOf(p)) })
}

// TestFollowInterface checks that the GID table follows an injected source of addresses, with an event for each change.
func TestFollowInterface(t *testing.T) {
	t.Parallel()
	needManyAddresses(t)
	none := netip.Addr{}
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprint("portable ", portable), func(t *testing.T) {
			t.Parallel()
			x, y, z := linktest.Addr(), linktest.Addr(), linktest.Addr()
			src := &fakeAddresses{list: []netip.Addr{x}}
			p := mustNew(t, Config{Interface: "test0", Addresses: src, Portable: portable})
			r := linktest.NewCollector()
			require.NoError(t, linktest.Start(p, r))
			t.Cleanup(func() { assert.NoError(t, p.Close()) })
			require.Equal(t, "test0", p.Attr().GIDs[0].Interface)
			require.NotZero(t, p.NodeGUID())
			guid := p.NodeGUID()
			waitTable(t, r, p, x)
			src.set(nil, x, y)
			waitTable(t, r, p, x, y)
			from, _ := openTest(t, Config{})
			receive := func(a netip.Addr) {
				rt, err := from.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: rocev2.GIDOf(a)}}, rvt.Flow{})
				require.NoError(t, err)
				from.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpAcknowledge, N: 1, Route: rt}})
				require.Equal(t, rocev2.GIDOf(a), r.Packets(t, 1)[0].Dst.GID)
			}
			receive(x)
			receive(y)
			src.set(nil, y)
			waitTable(t, r, p, none, y)
			receive(y)
			src.set(errors.New("the system is out of memory"))
			r.Wait(t, "the failed look", func(*linktest.Collector) bool {
				m := map[string]uint64{}
				p.AddCounters(m)
				return m["udp_address_errors"] > 0 || poke(r)
			})
			require.Equal(t, []netip.Addr{none, y}, addrsOf(p), "the table remains if the addresses are not known")
			src.set(fmt.Errorf("test0: %w", ErrNoInterface))
			waitTable(t, r, p, none, none)
			src.set(nil, z, x)
			waitTable(t, r, p, x, none, z)
			receive(x)
			receive(z)
			require.Equal(t, guid, p.NodeGUID())
			r.Lock()
			defer r.Unlock()
			require.Equal(t, slices.Repeat([]ci.EventType{ci.EventGIDChange}, 4), r.Events)
		})
	}
}

// poke makes Collector.Wait look again.
func poke(r *linktest.Collector) bool {
	go r.Count(rvt.DropService, 0)
	return false
}

// TestFollowWithoutReports checks that a port looks every second, by its clock, where the source reports no changes,
// and that it looks again after an address that could not be used.
func TestFollowWithoutReports(t *testing.T) {
	t.Parallel()
	needManyAddresses(t)
	x, y := linktest.Addr(), linktest.Addr()
	src := &fakeAddresses{list: []netip.Addr{x}, silent: true}
	p := mustNew(t, Config{Interface: "test0", Addresses: src})
	v := clock.NewVirtual(0)
	r := linktest.NewCollector()
	require.NoError(t, linktest.StartAt(p, r, v))
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	looks := func(n int) {
		t.Helper()
		r.Wait(t, fmt.Sprint(n, " looks"), func(*linktest.Collector) bool {
			src.mu.Lock()
			defer src.mu.Unlock()
			return src.looks == n && v.Pending() == 1 || poke(r)
		})
	}
	looks(2) // New and Start
	holder := mustNew(t, Config{Addr: y})
	src.set(nil, x, y)
	v.Advance(lookEvery)
	looks(3)
	require.Equal(t, []netip.Addr{x}, addrsOf(p))
	require.NoError(t, holder.Close())
	v.Advance(lookEvery - time.Millisecond)
	looks(3)
	v.Advance(time.Millisecond)
	looks(4)
	require.Equal(t, []netip.Addr{x, y}, addrsOf(p))
	m := map[string]uint64{}
	p.AddCounters(m)
	require.EqualValues(t, 1, m["udp_address_errors"])
	require.NoError(t, p.Close())
	require.Zero(t, v.Pending())
}

func TestAddressErrors(t *testing.T) {
	t.Parallel()
	addr := linktest.Addr()
	taken := mustNew(t, Config{Addr: linktest.Addr()})
	defer func() { assert.NoError(t, taken.Close()) }()
	many := make([]netip.Addr, rocev2.MaxGIDs)
	for name, c := range map[string]struct {
		c    Config
		want string
	}{
		"both":             {Config{Addr: addr, Interface: "lo"}, "exclude each other"},
		"both, further":    {Config{Addrs: []netip.Addr{addr}, Interface: "lo"}, "exclude each other"},
		"further, invalid": {Config{Addr: addr, Addrs: []netip.Addr{{}}}, "Config.Addrs[0] is not set"},
		"further, group": {Config{Addr: addr, Addrs: []netip.Addr{netip.MustParseAddr("224.0.0.9")}},
			"Config.Addrs[0] 224.0.0.9 is a multicast group"},
		"twice": {Config{Addr: addr, Addrs: []netip.Addr{netip.AddrFrom16(addr.As16())}},
			"occurs twice"},
		"too many": {Config{Addr: addr, Addrs: many}, "at most 128"},
		"source, no interface": {Config{Addr: addr, Addresses: &fakeAddresses{}},
			"Config.Addresses has a meaning with Interface only"},
		"fixed source ports": {Config{Interface: "lo", SourcePorts: 2, FirstSourcePort: 50000}, "set it to 0"},
		"no such interface":  {Config{Interface: "nosuchif"}, "no such network interface; interfaces here: "},
		"taken":              {Config{Addr: addr, Addrs: []netip.Addr{taken.core.Addr}}, "another process"},
		"interface, taken": {Config{Interface: "test0",
			Addresses: &fakeAddresses{list: []netip.Addr{addr, taken.core.Addr}}}, "another process"},
	} {
		_, err := New(c.c)
		require.ErrorContains(t, err, c.want, name)
	}
	// The address of a New that failed is free.
	p := mustNew(t, Config{Addr: addr})
	require.NoError(t, p.Close())

	failing := mustNew(t, Config{Interface: "test0", Addresses: &fakeAddresses{list: []netip.Addr{addr},
		watch: errors.New("no netlink here")}})
	require.ErrorContains(t, linktest.Start(failing, linktest.NewCollector()), "no netlink here")
	require.NoError(t, failing.Close())
}

// TestSystemAddresses checks that the loopback interface has the loopback addresses.
func TestSystemAddresses(t *testing.T) {
	t.Parallel()
	on := findInterface(netip.MustParseAddr("127.0.0.1"))
	if on.name == "" {
		t.Skip("no loopback interface")
	}
	list, err := SystemAddresses().Addresses(on.name)
	require.NoError(t, err)
	require.Contains(t, list, netip.MustParseAddr("127.0.0.1"))
	_, err = SystemAddresses().Addresses("nosuchif")
	require.ErrorIs(t, err, ErrNoInterface)
}
