package native

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLobby evicts the connections of two users.
func TestLobby(t *testing.T) {
	var l Lobby
	conns := make([]*Conn, 5)
	for i := range conns {
		a, b, err := Pair()
		require.NoError(t, err)
		defer a.Close()
		defer b.Close()
		conns[i] = a
	}
	require.Nil(t, l.EvictAny())
	l.Leave(conns[0])
	for i, uid := range []int{1, 2, 2, 1, 2} {
		l.Enter(conns[i], uid)
	}
	l.Leave(conns[1])
	l.Leave(conns[1])
	require.Nil(t, l.Evict(3))
	require.Same(t, conns[0], l.Evict(1), "the oldest of the user")
	require.Error(t, conns[0].Interrupt(), "it is closed")
	require.Same(t, conns[2], l.EvictAny(), "the user with the most")
	require.NotNil(t, l.EvictAny())
	require.NotNil(t, l.EvictAny())
	require.Nil(t, l.EvictAny())
	require.Empty(t, l.in)
	require.Empty(t, l.users)
	require.Zero(t, l.order.Len())
}
