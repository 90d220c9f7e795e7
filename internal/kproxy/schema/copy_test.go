package schema

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCopies checks the layout of the messages of copies, and the rejection of those that do not match it.
func TestCopies(t *testing.T) {
	c := Copy{ID: 1, Token: 2, Addr: 0x0102030405060708, Length: 3, Kind: CopyWrite}
	b := append(c.Append(nil), "abc"...)
	assert.Equal(t, "\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"+
		"\x08\x07\x06\x05\x04\x03\x02\x01\x03\x00\x00\x00\x02\x00\x00\x00abc", string(b))
	got, data, err := ParseCopy(b)
	require.NoError(t, err)
	assert.Equal(t, c, got)
	assert.Equal(t, "abc", string(data))
	for name, m := range map[string]Copy{
		"too long":  {Length: MaxCopy + 1, Kind: CopyRead},
		"no kind":   {Length: 3},
		"kind 3":    {Length: 3, Kind: 3},
		"more data": {Length: 2, Kind: CopyWrite},
		"less data": {Length: 4, Kind: CopyWrite},
		"read":      {Length: 3, Kind: CopyRead},
	} {
		b := m.Append(nil)
		if name != "too long" {
			b = append(b, "abc"...)
		}
		_, _, err := ParseCopy(b)
		assert.Error(t, err, name)
	}
	r := CopyReply{ID: 9, Failed: true}
	b = append(r.Append(nil), "x"...)
	assert.Equal(t, "\x09\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00x", string(b))
	reply, data, err := ParseCopyReply(b)
	require.NoError(t, err)
	assert.Equal(t, r, reply)
	assert.Equal(t, "x", string(data))
}

// FuzzCopy parses arbitrary bytes as messages of copies. What is accepted is encoded to the same bytes.
func FuzzCopy(f *testing.F) {
	f.Add((&Copy{Length: 1, Kind: CopyRead}).Append(nil))
	f.Add(append((&Copy{Length: 1, Kind: CopyWrite}).Append(nil), 1))
	f.Add((&CopyReply{ID: 1, Failed: true}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, data, err := ParseCopy(b); err == nil && string(append(c.Append(nil), data...)) != string(b) {
			t.Fatalf("%x was accepted as %+v", b, c)
		}
		if r, data, err := ParseCopyReply(b); err == nil && string(append(r.Append(nil), data...)) != string(b) {
			t.Fatalf("%x was accepted as %+v", b, r)
		}
	})
}
