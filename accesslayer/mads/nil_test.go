package mads_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// Missing arguments are reported. A nil watcher has no effect, also when a port is removed.
func TestNil(t *testing.T) {
	_, err := mads.New(nil, mads.Config{})
	require.ErrorIs(t, err, ci.InvalidParameter)
	single(t, func(t *testing.T, n *node) {
		n.m.Watch(nil) // it is never stopped, and Close reports the removal of ports to watchers
		a := n.agent(mads.AgentConfig{Class: mad.ClassCM})
		assert.ErrorIs(t, a.Send(nil), ci.InvalidParameter)
		_, err := a.Do(soon(t), nil)
		assert.ErrorIs(t, err, ci.InvalidParameter)
	})
}
