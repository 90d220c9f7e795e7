package direct

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/rvt"
	"ciddk/wire"
)

func TestDirectLinkRefuses(t *testing.T) {
	l := new(Link)
	a, err := open(l, Config{LID: 7})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	for name, c := range map[string]Config{
		"LID 0x7 is taken":         {LID: 7},
		"no unicast LID":           {LID: 0xc000},
		"MTU code 9":               {MTU: 9},
		"LID 0xffff is no unicast": {LID: 0xffff},
		"low LMC bits":             {LID: 1, LMC: 1},
		"needs a LID":              {LMC: 1},
		"want Down, Init":          {State: 9},
		"38 P_Keys":                {PKeys: make([]ci.PKey, 38)},
		"11 alias GUIDs":           {Aliases: make([]ci.GUID, 11)},
	} {
		_, err := open(l, c)
		require.ErrorContains(t, err, name)
	}
	_, err = New(nil, Config{})
	require.ErrorContains(t, err, "NewLink")
}

func TestDirectLinkState(t *testing.T) {
	l := new(Link)
	a, err := open(l, Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	events := make(chan ci.Event, 4)
	ca, err := a.OpenCA(a.Info().GUID, func(e ci.Event) { events <- e }, "ctx")
	require.NoError(t, err)
	require.NoError(t, a.SetLink(1, false))
	require.Equal(t, ci.Event{Context: "ctx", Type: ci.EventPortDown, Port: 1}, <-events)
	attr, err := ca.Query()
	require.NoError(t, err)
	require.Equal(t, ci.PortDown, attr.Ports[0].State)
	require.NoError(t, a.SetLink(1, true))
	require.Equal(t, ci.EventPortActive, (<-events).Type)
	require.Error(t, a.SetLink(2, true))
	require.NoError(t, ca.Destroy())
}

// TestLinkToInit checks that a port that waits for a subnet manager raises an event when its link comes up, and that
// CA.Query always agrees with PortInfo.
func TestLinkToInit(t *testing.T) {
	for _, rise := range []ci.PortState{ci.PortInit, ci.PortArmed} {
		port, err := New(NewLink(), Config{State: rise})
		require.NoError(t, err)
		h, err := rvt.New(linktest.Config(port))
		require.NoError(t, err)
		events := make(chan ci.Event, 8)
		ca, err := h.OpenCA(h.Info().GUID, func(e ci.Event) { events <- e }, nil)
		require.NoError(t, err)
		state := func() (query, info ci.PortState) {
			a, err := ca.Query()
			require.NoError(t, err)
			return a.Ports[0].State, port.Attr().State
		}
		for _, step := range []struct {
			up    bool
			event ci.EventType
			state ci.PortState
		}{{false, ci.EventPortDown, ci.PortDown}, {true, ci.EventPortInit, rise},
			{false, ci.EventPortDown, ci.PortDown}} {
			require.NoError(t, h.SetLink(1, step.up))
			e := <-events
			require.Equal(t, step.event, e.Type)
			require.EqualValues(t, 1, e.Port)
			query, info := state()
			require.Equal(t, step.state, query)
			require.Equal(t, info, query)
		}
		require.Empty(t, events)
		require.NoError(t, ca.Destroy())
		require.NoError(t, h.Close())
	}
}

// LIDs are assigned, configured or rejected, and are free again when the port is closed.
func TestDirectLIDs(t *testing.T) {
	t.Parallel()
	l := NewLink()
	lid := func(c Config) (*rvt.HCA, ci.LID) {
		h, err := open(l, c)
		require.NoError(t, err)
		return h, portAttr(t, h).LID
	}
	a, x := lid(Config{})
	b, y := lid(Config{LID: 4, LMC: 2})
	c, z := lid(Config{})
	assert.EqualValues(t, 1, x)
	assert.EqualValues(t, 4, y)
	assert.EqualValues(t, 2, z)
	_, err := open(l, Config{LID: 7})
	require.ErrorContains(t, err, "LID 0x7 is taken")
	require.NoError(t, a.Close())
	a, x = lid(Config{})
	assert.EqualValues(t, 1, x)
	w, v := lid(Config{State: ci.PortInit})
	assert.EqualValues(t, 0, v, "a subnet manager assigns it")
	for _, h := range []*rvt.HCA{a, b, c, w} {
		require.NoError(t, h.Close())
	}
	require.Empty(t, l.now().all)
}

// TestAliases checks that alias GUIDs are entries of the GID table, with empty entries between them.
func TestAliases(t *testing.T) {
	h, err := open(NewLink(), Config{GUID: 0x11, Aliases: []ci.GUID{0, 0x22, 0}})
	require.NoError(t, err)
	prefix := [8]byte{0xfe, 0x80}
	own, alias := ci.GID{15: 0x11}, ci.GID{15: 0x22}
	copy(own[:], prefix[:])
	copy(alias[:], prefix[:])
	assert.Equal(t, []ci.GIDEntry{{GID: own}, {}, {GID: alias}}, portAttr(t, h).GIDs)
	require.NoError(t, h.Close())
}

// An armed port accepts data, and the first packet makes it active. A port in Init accepts none.
func TestDirectStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, after ci.PortState
		got          int
	}{{ci.PortDown, ci.PortDown, 0}, {ci.PortInit, ci.PortInit, 0}, {ci.PortArmed, ci.PortActive, 1},
		{ci.PortActive, ci.PortActive, 1}} {
		t.Run(c.state.String(), func(t *testing.T) {
			t.Parallel()
			l := NewLink()
			from, err := New(l, Config{})
			require.NoError(t, err)
			to, err := New(l, Config{LID: 9, State: c.state})
			require.NoError(t, err)
			rf, rt := linktest.NewCollector(), linktest.NewCollector()
			require.NoError(t, linktest.Start(from, rf))
			require.NoError(t, linktest.Start(to, rt))
			rdest, err := from.Route(&ci.AVAttr{DLID: 9}, rvt.Flow{})
			require.NoError(t, err)
			from.Send([]rvt.Packet{{Op: wire.OpSend, N: 1, DestQP: 5, Route: rdest}})
			assert.Len(t, rt.Taken(), c.got)
			assert.Equal(t, 1-c.got, rt.Counted(rvt.DropNotForUs))
			assert.Equal(t, c.after, to.Attr().State)
			from.Send([]rvt.Packet{{Op: wire.OpSend, N: 1, DestQP: 0, Route: rdest}})
			assert.Equal(t, c.state != ci.PortDown, len(rt.Taken()) == 1, "subnet management from Init on")
			require.NoError(t, to.Close())
			require.NoError(t, to.Close())
			from.Send([]rvt.Packet{{Op: wire.OpSend, N: 3, DestQP: 5, Route: rdest}})
			assert.Equal(t, 3, rf.Counted(rvt.DropSendFailed))
			require.NoError(t, from.Close())
		})
	}
}

func TestDirectRoutes(t *testing.T) {
	t.Parallel()
	l := NewLink()
	p, err := New(l, Config{LID: 4, LMC: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	r := linktest.NewCollector()
	require.NoError(t, linktest.Start(p, r))
	own := p.Attr().GIDs[0].GID
	for _, c := range []struct {
		name string
		av   ci.AVAttr
		want ci.Status
	}{
		{"no LID", ci.AVAttr{}, ci.InvalidParameter},
		{"unknown GID", ci.AVAttr{Global: true, GRH: ci.GRH{DGID: ci.GID{1}}}, ci.InvalidParameter},
		{"source GID", ci.AVAttr{Global: true, DLID: 4, GRH: ci.GRH{SGIDIndex: 1}}, ci.InvalidIndex},
		{"multicast without GRH", ci.AVAttr{DLID: 0xc001}, ci.InvalidParameter},
		{"multicast to a unicast GID", ci.AVAttr{DLID: 0xc001, Global: true, GRH: ci.GRH{DGID: own}},
			ci.InvalidParameter},
		{"by GID", ci.AVAttr{Global: true, GRH: ci.GRH{DGID: own}}, ci.Success},
	} {
		_, err := p.Route(&c.av, rvt.Flow{})
		assert.Equal(t, c.want, ci.StatusOf(err), c.name)
	}
	// To itself, at another of its LIDs, from another of its LIDs.
	rt, err := p.Route(&ci.AVAttr{DLID: 6, PathBits: 7, SL: 3}, rvt.Flow{})
	require.NoError(t, err)
	p.Send([]rvt.Packet{{Op: wire.OpSend, N: 1, DestQP: 5, Route: rt}})
	got := r.Taken()
	require.Len(t, got, 1)
	assert.Equal(t, rvt.Addr{LID: 7}, got[0].Src)
	assert.EqualValues(t, 2, got[0].PathBits)
	assert.EqualValues(t, 3, got[0].SL)
}

// open returns an HCA with one port.
func open(l *Link, c Config) (*rvt.HCA, error) {
	p, err := New(l, c)
	if err != nil {
		return nil, err
	}
	return rvt.New(linktest.Config(p))
}

// portAttr returns the attributes of an HCA's port.
func portAttr(t *testing.T, h *rvt.HCA) ci.PortAttr {
	t.Helper()
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, ca.Destroy()) }()
	a, err := ca.Query()
	require.NoError(t, err)
	return a.Ports[0]
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
