package ual_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ual"
)

// TestExpose exposes memory that overlaps other memory, in all ways, and memory that does not.
func TestExpose(t *testing.T) {
	b := make([]byte, 400)
	part := func(from, to int) ci.Memory { return ci.Bytes(b[from:to:to]) }
	release, err := ual.Expose(part(100, 200))
	require.NoError(t, err)
	for name, x := range map[string]struct {
		m  ci.Memory
		ok bool
	}{
		"the same": {part(100, 200), false}, "a part": {part(120, 130), false}, "around it": {part(50, 300), false},
		"its first byte": {part(50, 101), false}, "its last byte": {part(199, 300), false},
		"before": {part(50, 100), true}, "after": {part(200, 300), true},
		"none": {nil, false}, "empty": {part(5, 5), false},
	} {
		release, err := ual.Expose(x.m)
		assert.Equal(t, x.ok, err == nil, name)
		if x.ok {
			release()
			release()
		}
	}
	release()
	release, err = ual.Expose(part(50, 300))
	require.NoError(t, err)
	release()
}
