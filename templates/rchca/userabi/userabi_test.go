package userabi

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLayout compares the records with their bytes, which must not change within a revision.
func TestLayout(t *testing.T) {
	assert.Equal(t, []byte{2, 0, 0, 0, 0, 0, 0, 0}, Request{}.Encode())
	full := Answer{Number: 0x01020304, Offset: 0x1112131415161718, Slots: 0x21222324, SGEs: 0x3132, Inline: 0x4142}
	assert.Equal(t, []byte{2, 0, 0, 0, 0x04, 0x03, 0x02, 0x01, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
		0x24, 0x23, 0x22, 0x21, 0x32, 0x31, 0x42, 0x41}, full.Encode())

	var r Request
	require.NoError(t, r.Decode(Request{}.Encode()))
	for _, bad := range [][]byte{nil, {1}, {1, 0, 0, 0, 0, 0, 0, 0}, {2, 0, 0, 0, 1, 0, 0, 0},
		append(Request{}.Encode(), 0)} {
		assert.Error(t, r.Decode(bad), "%x", bad)
	}
	var a Answer
	require.NoError(t, a.Decode(full.Encode()))
	assert.Equal(t, full, a)
	for _, bad := range [][]byte{nil, {2, 0, 0, 0}, make([]byte, AnswerSize)} {
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
