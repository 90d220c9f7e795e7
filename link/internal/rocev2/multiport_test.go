package rocev2

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/rvt"
	"ciddk/wire"
)

// memSocket is a Socket that notes what it is asked to do.
type memSocket struct {
	addr    netip.Addr
	started bool
	closed  int
	sent    []rvt.Packet
	groups  []netip.Addr
	marks   []uint64 // arguments of CatchUp
	behind  int      // calls of CatchUp until it is done
}

func (s *memSocket) Start() error            { s.started = true; return nil }
func (s *memSocket) Send(pkts []rvt.Packet)  { s.sent = append(s.sent, pkts...) }
func (s *memSocket) Hints() rvt.Hints        { return rvt.Hints{Window: 7} }
func (s *memSocket) Join(g netip.Addr) error { s.groups = append(s.groups, g); return nil }
func (s *memSocket) Close() error            { s.closed++; return nil }
func (s *memSocket) Leave(g netip.Addr) error {
	i := slices.Index(s.groups, g)
	if i < 0 {
		return errors.New("not joined")
	}
	s.groups = slices.Delete(s.groups, i, i+1)
	return nil
}
func (s *memSocket) CatchUp(mark uint64) (uint64, bool) {
	s.marks = append(s.marks, mark)
	if s.behind == 0 {
		return 0, true
	}
	s.behind--
	return mark + 1, false
}
func (s *memSocket) AddCounters(m map[string]uint64) { m["of_the_socket"]++ }

// multiRig is a MultiPort over memSockets.
type multiRig struct {
	*MultiPort
	t       *testing.T
	events  *linktest.Collector
	sockets []*memSocket // all that were opened
	refuse  map[netip.Addr]bool
}

func newMultiRig(t *testing.T, addrs ...string) *multiRig {
	r := &multiRig{MultiPort: &MultiPort{UDP: wire.RoCEv2Port, MTU: ci.MTU1024}, t: t, events: linktest.NewCollector(),
		refuse: map[netip.Addr]bool{}}
	r.Open = func(a netip.Addr) (*Port, error) {
		if r.refuse[a] {
			return nil, fmt.Errorf("%v: refused", a)
		}
		s := &memSocket{addr: a}
		r.sockets = append(r.sockets, s)
		return &Port{Addr: a, UDP: wire.RoCEv2Port, GID: GIDOf(a), MTU: ci.MTU1024, Interface: "eth7",
			Sources: []uint16{wire.RoCEv2Port}, Socket: s}, nil
	}
	r.Up()
	require.NoError(t, r.Set(list(addrs...)))
	return r
}

func (r *multiRig) start() {
	require.NoError(r.t, r.Start(rvt.PortContext{Receiver: r.events, Clock: clock.NewVirtual(0)}))
}

// socket returns the socket of an address that was opened last.
func (r *multiRig) socket(addr string) *memSocket {
	a := netip.MustParseAddr(addr)
	for i := range r.sockets {
		if s := r.sockets[len(r.sockets)-1-i]; s.addr == a {
			return s
		}
	}
	return nil
}

// gids returns the GID table as addresses, "" for empty entries.
func (r *multiRig) gids() (out []string) {
	for _, e := range r.Attr().GIDs {
		require.Equal(r.t, ci.GIDRoCEv2, e.Type)
		if e.GID == (ci.GID{}) {
			require.Empty(r.t, e.Interface)
			out = append(out, "")
			continue
		}
		require.Equal(r.t, "eth7", e.Interface)
		out = append(out, AddrOf(e.GID).String())
	}
	return out
}

// changes returns the number of GID changes since the last call.
func (r *multiRig) changes() int {
	r.events.Lock()
	defer r.events.Unlock()
	n := len(r.events.Events)
	for _, e := range r.events.Events {
		require.Equal(r.t, ci.EventGIDChange, e)
	}
	r.events.Events = nil
	return n
}

func list(addrs ...string) (out []netip.Addr) {
	for _, a := range addrs {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestGIDTable(t *testing.T) {
	t.Parallel()
	r := newMultiRig(t, "10.0.0.1", "fd00::1")
	require.False(t, r.socket("10.0.0.1").started)
	r.start()
	require.True(t, r.socket("fd00::1").started)
	require.Zero(t, r.changes(), "addresses that were there from the beginning are no change")
	for _, step := range []struct {
		set  []netip.Addr
		want []string
		n    int // changes
	}{
		{list("10.0.0.1", "fd00::1"), []string{"10.0.0.1", "fd00::1"}, 0},
		{list("fd00::1", "10.0.0.1"), []string{"10.0.0.1", "fd00::1"}, 0}, // the order of the list does not matter
		{list("10.0.0.1", "fd00::1", "10.0.0.2"), []string{"10.0.0.1", "fd00::1", "10.0.0.2"}, 1},
		{list("fd00::1", "10.0.0.2"), []string{"", "fd00::1", "10.0.0.2"}, 1},
		{list("fd00::1", "10.0.0.2", "10.0.0.3"), []string{"", "fd00::1", "10.0.0.2", "10.0.0.3"}, 1},
		{list("fd00::1", "10.0.0.1", "10.0.0.4"), []string{"10.0.0.1", "fd00::1", "", "", "10.0.0.4"}, 1},
		{nil, []string{"", "", "", "", ""}, 1},
		{list("10.0.0.3"), []string{"", "", "", "10.0.0.3", ""}, 1},
	} {
		require.NoError(t, r.Set(step.set))
		require.Equal(t, step.want, r.gids())
		require.Equal(t, step.n, r.changes(), step.want)
	}
	open := 0
	for _, s := range r.sockets {
		require.True(t, s.started)
		if s.closed == 0 {
			open++
		}
	}
	require.Equal(t, 1, open)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	for _, s := range r.sockets {
		require.Equal(t, 1, s.closed)
	}
	require.Error(t, r.Set(list("10.0.0.9")))
}

// TestGIDTableWithoutAddresses checks that a port may begin without addresses.
func TestGIDTableWithoutAddresses(t *testing.T) {
	t.Parallel()
	r := newMultiRig(t)
	require.Equal(t, []string{""}, r.gids())
	require.NotZero(t, r.Hints().Window)
	require.NotZero(t, r.Hints().MaxTrain)
	r.start()
	_, err := r.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: GIDOf(netip.MustParseAddr("10.0.0.9"))}}, rvt.Flow{})
	require.ErrorIs(t, err, ci.InvalidIndex)
	h := r.Hints()
	require.NoError(t, r.Set(list("10.0.0.1")))
	require.Equal(t, h, r.Hints(), "hints do not change after Start")
	require.NoError(t, r.Close())
}

// TestAddedEntries checks the entries that LinkLocal and RoCEv1 add: their order, and that packets from and to each are
// those of the address.
func TestAddedEntries(t *testing.T) {
	t.Parallel()
	const v1, v2 = ci.GIDRoCEv1, ci.GIDRoCEv2
	type entry struct {
		gid string
		typ ci.GIDType
	}
	local4 := "fe80::5efe:a00:1"
	for _, tt := range []struct {
		linkLocal, v1 bool
		want          []entry // of 10.0.0.1, fd00::1 and an address that was removed
	}{
		{true, false, []entry{{local4, v2}, {"10.0.0.1", v2}, {"", v2}, {"fd00::1", v2}, {"", v2}, {"", v2}}},
		{false, true, []entry{{"10.0.0.1", v1}, {"10.0.0.1", v2}, {"fd00::1", v1}, {"fd00::1", v2},
			{"", v1}, {"", v2}}},
		{true, true, []entry{{local4, v1}, {local4, v2}, {"10.0.0.1", v1}, {"10.0.0.1", v2},
			{"", v1}, {"", v2}, {"fd00::1", v1}, {"fd00::1", v2}, {"", v1}, {"", v2}, {"", v1}, {"", v2}}},
	} {
		r := newMultiRig(t)
		r.LinkLocal, r.RoCEv1 = tt.linkLocal, tt.v1
		require.NoError(t, r.Set(list("10.0.0.1", "fd00::1", "10.0.0.2")))
		require.NoError(t, r.Set(list("10.0.0.1", "fd00::1")))
		var got []entry
		for i, e := range r.Attr().GIDs {
			av := ci.AVAttr{Global: true, GRH: ci.GRH{DGID: e.GID, SGIDIndex: uint16(i)}}
			rt, err := r.Route(&av, rvt.Flow{})
			if e.GID == (ci.GID{}) {
				require.ErrorIs(t, err, ci.InvalidIndex)
				got = append(got, entry{"", e.Type})
				continue
			}
			require.NoError(t, err)
			got = append(got, entry{AddrOf(e.GID).String(), e.Type})
			address := GIDOf(from4(e.GID))
			assert.Equal(t, address, rt.(rvt.LocalRoute).Local())
			assert.Equal(t, address, rt.Peer().GID)
		}
		assert.Equal(t, tt.want, got)
		_, err := r.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{SGIDIndex: uint16(len(got))}}, rvt.Flow{})
		require.ErrorIs(t, err, ci.InvalidIndex)
		require.NoError(t, r.Close())
	}
}

func TestGIDTableIsFull(t *testing.T) {
	t.Parallel()
	r := newMultiRig(t)
	r.start()
	var all []netip.Addr
	for i := range MaxGIDs + 1 {
		all = append(all, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	require.ErrorContains(t, r.Set(all), fmt.Sprint(MaxGIDs))
	require.Len(t, r.gids(), MaxGIDs)
	require.NoError(t, r.Set(append([]netip.Addr{all[MaxGIDs]}, all[1:MaxGIDs]...)))
	require.Equal(t, all[MaxGIDs].String(), r.gids()[0], "an empty entry is used when there is no unused one")
	require.NoError(t, r.Close())
}

// TestAddressThatCannotBeUsed checks that it is left out, that the others are used, and that it is used later.
func TestAddressThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	r := newMultiRig(t, "10.0.0.1")
	r.start()
	r.refuse[netip.MustParseAddr("10.0.0.2")] = true
	now := list("10.0.0.1", "10.0.0.2", "10.0.0.3")
	require.ErrorContains(t, r.Set(now), "10.0.0.2: refused")
	require.Equal(t, []string{"10.0.0.1", "10.0.0.3"}, r.gids())
	require.Equal(t, 1, r.changes())
	require.Error(t, r.Set(now))
	require.Zero(t, r.changes())
	clear(r.refuse)
	require.NoError(t, r.Set(now))
	require.Equal(t, []string{"10.0.0.1", "10.0.0.3", "10.0.0.2"}, r.gids())
	require.Equal(t, 1, r.changes())
	require.NoError(t, r.Close())
}

// TestSourceOfRoute checks that packets leave through the socket of the address that SGIDIndex selects.
func TestSourceOfRoute(t *testing.T) {
	t.Parallel()
	r := newMultiRig(t, "10.0.0.1", "fd00::1", "10.0.0.2")
	r.start()
	dst := map[bool]ci.GID{true: GIDOf(netip.MustParseAddr("10.0.0.9")), false: GIDOf(netip.MustParseAddr("fd00::9"))}
	var routes []rvt.Route
	for i, a := range []string{"10.0.0.1", "fd00::1", "10.0.0.2"} {
		is4 := netip.MustParseAddr(a).Is4()
		rt, err := r.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: dst[is4], SGIDIndex: uint16(i)}}, rvt.Flow{})
		require.NoError(t, err)
		routes = append(routes, rt)
		assert.Equal(t, GIDOf(netip.MustParseAddr(a)), rt.(rvt.LocalRoute).Local())
		_, err = r.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: dst[!is4], SGIDIndex: uint16(i)}}, rvt.Flow{})
		require.ErrorIs(t, err, ci.InvalidParameter, "another address family")
		frame := r.EncodeFrame(rvt.Sent, &rvt.Packet{Service: wire.RC, Op: wire.OpSend, Start: true, End: true,
			N: 1, Route: rt})
		require.NotNil(t, frame)
		if is4 {
			assert.Equal(t, netip.MustParseAddr(a).AsSlice(), frame[12:16])
		} else {
			assert.Equal(t, netip.MustParseAddr(a).AsSlice(), frame[8:24])
		}
	}
	_, err := r.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: dst[true], SGIDIndex: 3}}, rvt.Flow{})
	require.ErrorIs(t, err, ci.InvalidIndex)

	var pkts []rvt.Packet
	for psn, i := range []int{0, 0, 1, 2, 0} {
		pkts = append(pkts, rvt.Packet{PSN: ci.PSN(psn), N: 1, Route: routes[i]})
	}
	r.Send(pkts)
	psns := func(addr string) (out []int) {
		for _, p := range r.socket(addr).sent {
			out = append(out, int(p.PSN))
		}
		return out
	}
	assert.Equal(t, []int{0, 1, 4}, psns("10.0.0.1"))
	assert.Equal(t, []int{2}, psns("fd00::1"))
	assert.Equal(t, []int{3}, psns("10.0.0.2"))

	// A route of an address that was removed leads to its closed socket, which drops the packets, even if the address
	// comes back.
	old := r.socket("10.0.0.2")
	require.NoError(t, r.Set(list("10.0.0.1", "fd00::1")))
	_, err = r.Route(&ci.AVAttr{Global: true, GRH: ci.GRH{DGID: dst[true], SGIDIndex: 2}}, rvt.Flow{})
	require.ErrorIs(t, err, ci.InvalidIndex)
	require.NoError(t, r.Set(list("10.0.0.1", "fd00::1", "10.0.0.2")))
	require.NotSame(t, old, r.socket("10.0.0.2"))
	r.Send(pkts)
	assert.Equal(t, 1, old.closed)
	assert.Len(t, old.sent, 2)
	assert.Empty(t, r.socket("10.0.0.2").sent)
	require.NoError(t, r.Close())
}

// TestGroupsMove checks that a group is joined at one address, and at another one after that is removed.
func TestGroupsMove(t *testing.T) {
	t.Parallel()
	r := newMultiRig(t, "10.0.0.1", "10.0.0.2")
	r.start()
	gid := GIDOf(netip.MustParseAddr("224.1.2.3"))
	gid6 := GIDOf(netip.MustParseAddr("ff0e::77"))
	require.ErrorIs(t, r.JoinGroup(gid6), ci.InvalidGID)
	require.ErrorIs(t, r.JoinGroup(GIDOf(netip.MustParseAddr("10.0.0.1"))), ci.InvalidGID)
	require.NoError(t, r.JoinGroup(gid))
	require.NoError(t, r.JoinGroup(gid))
	joined := func() (out []int) {
		for _, s := range r.sockets {
			out = append(out, len(s.groups))
		}
		return out
	}
	require.Equal(t, []int{1, 0}, joined())
	require.NoError(t, r.Set(list("10.0.0.2")))
	require.Equal(t, []int{1, 1}, joined(), "the first socket is closed")
	require.NoError(t, r.Set(list("fd00::1")))
	require.NoError(t, r.JoinGroup(gid6))
	require.NoError(t, r.Set(list("fd00::1", "10.0.0.3")))
	require.Equal(t, []int{1, 1, 1, 1}, joined())
	require.NoError(t, r.LeaveGroup(gid))
	require.Equal(t, []int{1, 1, 1, 1}, joined())
	require.NoError(t, r.LeaveGroup(gid))
	require.Equal(t, []int{1, 1, 1, 0}, joined())
	require.Error(t, r.LeaveGroup(gid))
	require.NoError(t, r.Close())
}

// TestCatchUpOfAllAddresses checks that a series of calls comes to every socket with the marks of that socket.
func TestCatchUpOfAllAddresses(t *testing.T) {
	t.Parallel()
	r := newMultiRig(t, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	r.start()
	require.NoError(t, r.Set(list("10.0.0.1", "10.0.0.3")))
	r.socket("10.0.0.1").behind, r.socket("10.0.0.3").behind = 2, 1
	mark, done, calls := uint64(0), false, 0
	for !done {
		mark, done = r.CatchUp(mark)
		calls++
	}
	assert.Equal(t, 4, calls)
	assert.Equal(t, []uint64{0, 1, 2}, r.socket("10.0.0.1").marks)
	assert.Empty(t, r.socket("10.0.0.2").marks)
	assert.Equal(t, []uint64{0, 1}, r.socket("10.0.0.3").marks)
	m := map[string]uint64{}
	r.AddCounters(m)
	assert.EqualValues(t, 3, m["of_the_socket"], "the counters of an address that was removed remain")
	require.NoError(t, r.Close())
}
