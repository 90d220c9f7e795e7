package devices

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTree(t *testing.T) {
	entries := []Entry{
		{Path: "/sys/a", Data: []byte("one\n")},
		{Path: "/sys/empty", Data: []byte{}},
		{Path: "/sys/dir", Dir: true, Data: []byte{}},
		{Path: "/sys/b", Data: []byte("d 3 /x\n\nf")},
	}
	b := encodeTree(entries)
	got, err := decodeTree(b)
	require.NoError(t, err)
	assert.Equal(t, entries, got)
	var parts []byte
	for len(parts) < len(b) {
		r := part(b, uint64(len(parts)))
		assert.EqualValues(t, len(b), r.Result)
		parts = append(parts, r.Stores[0].Data...)
	}
	assert.Equal(t, b, parts)
	assert.Empty(t, part(b, 1<<63).Stores[0].Data)
	for _, bad := range []string{"f", "f 1 /a", "f 2 /a\nx", "x 0 /a\n", "f -1 /a\n", "f 0 a\n", "f 0 /a/../../etc\n",
		"f 0 /a/\n", "f 99999999999999999999 /a\n"} {
		_, err := decodeTree([]byte(bad))
		assert.Error(t, err, bad)
	}
}

func TestReplyLayout(t *testing.T) {
	r := &Reply{Errno: syscall.EBUSY, Result: -2, NeedFile: true, Number: 7,
		Bell:   &Bell{Handle: 3, Index: 9, IsSet: true},
		Memory: os.Stdin, Files: []Descriptor{{File: os.Stdout, Addr: 0x1122}},
		Stores: []Store{{Addr: 0x3344, Data: []byte("abc")}, {Addr: 1}}}
	b, files := appendReply(nil, r)
	assert.Equal(t, []*os.File{os.Stdin, os.Stdout}, files)
	var want []byte
	for _, v := range []uint32{uint32(syscall.EBUSY), flagNeedFile | flagBell | flagMemory, 0xfffffffe,
		0xffffffff, 7, 3,
		9, 2, 2, 0} {
		want = ne.AppendUint32(want, v)
	}
	for _, v := range []uint64{0, 0x1122, 0x3344, 3} {
		want = ne.AppendUint64(want, v)
	}
	want = append(want, "abc\x00\x00\x00\x00\x00"...)
	want = ne.AppendUint64(ne.AppendUint64(want, 1), 0)
	if ne.Uint16([]byte{1, 0}) == 1 { // little-endian, as the halves of the result above
		assert.Equal(t, want, b)
	}
	b, _ = appendReply(nil, &Reply{Bell: &Bell{Handle: 3}})
	assert.EqualValues(t, flagNoBell, ne.Uint32(b[4:]))
}

func TestErrnoOf(t *testing.T) {
	assert.Equal(t, syscall.ENOENT, errnoOf(fmt.Errorf("x: %w", syscall.ENOENT)))
	assert.Equal(t, syscall.EIO, errnoOf(errors.New("x")))
}

func FuzzParse(f *testing.F) {
	f.Add(appendRequest(nil, &message{op: opWrite, files: 1, a: 5, data: []byte("x")}), 2)
	f.Add(appendRequest(nil, &message{op: opOpen, data: []byte("/dev/x")}), 1)
	f.Add(appendRequest(nil, &message{op: opBell}), 0)
	f.Fuzz(func(t *testing.T, b []byte, files int) {
		m, err := parse(b, files)
		if err != nil {
			return
		}
		require.LessOrEqual(t, m.files, uint32(1))
		require.Equal(t, m.op != opBell, files == 1+int(m.files))
		again, err := parse(appendRequest(nil, &m), files)
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}

func FuzzTree(f *testing.F) {
	f.Add([]byte("f 2 /a\nxyd 0 /b\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := decodeTree(b)
		if err != nil {
			return
		}
		again, err := decodeTree(encodeTree(entries))
		require.NoError(t, err)
		require.Equal(t, entries, again)
	})
}
