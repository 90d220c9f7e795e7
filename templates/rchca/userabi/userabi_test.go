package userabi

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLayout compares the records with their bytes, which must not change within a revision.
func TestLayout(t *testing.T) {
	assert.Equal(t, []byte{1, 0, 0, 0, 0, 0, 0, 0}, Request{}.Encode())
	assert.Equal(t, []byte{1, 0, 0, 0, 0x04, 0x03, 0x02, 0x01}, Answer{Number: 0x01020304}.Encode())

	var r Request
	require.NoError(t, r.Decode(Request{}.Encode()))
	for _, bad := range [][]byte{nil, {1}, {2, 0, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 1, 0, 0, 0},
		append(Request{}.Encode(), 0)} {
		assert.Error(t, r.Decode(bad), "%x", bad)
	}
	var a Answer
	require.NoError(t, a.Decode(Answer{Number: 7}.Encode()))
	assert.EqualValues(t, 7, a.Number)
	for _, bad := range [][]byte{nil, {1, 0, 0, 0}, {9, 0, 0, 0, 0, 0, 0, 0}} {
		assert.Error(t, a.Decode(bad), "%x", bad)
	}
}

// FuzzRequest decodes what a process may send.
func FuzzRequest(f *testing.F) {
	f.Add(Request{}.Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		if r.Decode(b) == nil {
			assert.Equal(t, b, r.Encode())
		}
	})
}
