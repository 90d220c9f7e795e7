package mads_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// What is missing is said, or, of a watcher, has no effect: neither now nor when a port goes.
func TestNil(t *testing.T) {
	_, err := mads.New(nil, mads.Config{})
	require.ErrorIs(t, err, ci.InvalidParameter)
	single(t, func(t *testing.T, n *node) {
		n.m.Watch(nil) // and never stopped: Close tells it of ports that go
		a := n.agent(mads.AgentConfig{Class: mad.ClassCM})
		assert.ErrorIs(t, a.Send(nil), ci.InvalidParameter)
		_, err := a.Do(soon(t), nil)
		assert.ErrorIs(t, err, ci.InvalidParameter)
	})
}
