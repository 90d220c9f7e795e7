package reference

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

func TestDirectLinkRefuses(t *testing.T) {
	l := new(DirectLink)
	a, err := New(Config{Ports: []PortConfig{Direct(l, DirectConfig{LID: 7})}})
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	for name, c := range map[string]DirectConfig{
		"LID 0x7 is taken":         {LID: 7},
		"no unicast LID":           {LID: 0xc000},
		"MTU code 9":               {MTU: 9},
		"LID 0xffff is no unicast": {LID: 0xffff},
	} {
		_, err := New(Config{Ports: []PortConfig{Direct(l, c)}})
		require.ErrorContains(t, err, name)
	}
}

func TestDirectLinkState(t *testing.T) {
	l := new(DirectLink)
	a, err := New(Config{Ports: []PortConfig{Direct(l, DirectConfig{})}})
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

// TestLinkToInit: a port that waits for a subnet manager raises an event when its link comes up, and CA.Query shows what PortInfo does all the
// time.
func TestLinkToInit(t *testing.T) {
	for _, rise := range []ci.PortState{ci.PortInit, ci.PortArmed} {
		h, err := New(Config{Ports: []PortConfig{Direct(NewDirectLink(), DirectConfig{State: rise})}})
		require.NoError(t, err)
		events := make(chan ci.Event, 8)
		ca, err := h.OpenCA(h.Info().GUID, func(e ci.Event) { events <- e }, nil)
		require.NoError(t, err)
		state := func() (query, info ci.PortState) {
			a, err := ca.Query()
			require.NoError(t, err)
			return a.Ports[0].State, h.ports[0].Attr().State
		}
		for _, step := range []struct {
			up    bool
			event ci.EventType
			state ci.PortState
		}{{false, ci.EventPortDown, ci.PortDown}, {true, ci.EventPortInit, rise}, {false, ci.EventPortDown, ci.PortDown}} {
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
