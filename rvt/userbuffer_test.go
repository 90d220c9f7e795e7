package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// A driver keeps no UserBuffer after the verb, and marks it when there is no result.
func TestUserBufferOfAVIsNotKept(t *testing.T) {
	t.Parallel()
	r := newMemRig(t, func(cfg *Config) { cfg.Attr.Caps = ci.CapAV })
	attr := ci.AVAttr{Port: 1, Global: true, User: &ci.UserBuffer{Status: 9, Out: make([]byte, 4)}}
	av, err := r.pd.CreateAV(attr)
	require.NoError(t, err)
	require.Equal(t, &ci.UserBuffer{Out: []byte{}}, attr.User)
	attr.User = &ci.UserBuffer{Status: 9}
	require.NoError(t, av.Modify(attr))
	require.Zero(t, attr.User.Status)
	got, _, err := av.Query()
	require.NoError(t, err)
	attr.User = nil
	require.Equal(t, attr, got)
	require.NoError(t, av.Destroy())
	r.close()
}
