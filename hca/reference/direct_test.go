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
	require.NoError(t, ca.Close())
}
