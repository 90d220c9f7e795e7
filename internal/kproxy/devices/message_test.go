package devices

import (
	"errors"
	"fmt"
	"math"
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
	b, files := encodeReply(r)
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
	b, _ = encodeReply(&Reply{Bell: &Bell{Handle: 3}})
	assert.EqualValues(t, flagNoBell, ne.Uint32(b[4:]))
}

// TestReplyFile encodes and decodes replies whose first descriptor has a purpose of its own.
func TestReplyFile(t *testing.T) {
	for name, r := range map[string]*Reply{"memory": {Memory: os.Stdin}, "copies": {Copies: os.Stdin, Errno: 5},
		"none": {}} {
		r.Files = []Descriptor{{File: os.Stdout, Close: true, Addr: 7}}
		b, files := encodeReply(r)
		got, err := parseReply(b, files)
		require.NoError(t, err, name)
		assert.Equal(t, r, got, name)
	}
	b, files := encodeReply(&Reply{Memory: os.Stdin, Copies: os.Stdout})
	_, err := parseReply(b, files)
	require.ErrorIs(t, err, errMessage, "both")
	for _, flag := range []uint32{flagMemory, flagCopies} {
		b, _ = encodeReply(&Reply{})
		ne.PutUint32(b[4:], flag)
		_, err = parseReply(b, nil)
		require.ErrorIs(t, err, errMessage, "without a descriptor")
	}
}

// TestRanges encodes and decodes memory of a program, and requests for it.
func TestRanges(t *testing.T) {
	list := []Range{{Addr: 0x1000, Size: 3, Data: []byte("abc")}, {Addr: 7, Data: []byte{}}}
	got, err := parseRanges(encodeRanges(list))
	require.NoError(t, err)
	assert.Equal(t, list, got)
	r := &Request{Memory: list}
	last := &Request{Memory: []Range{{Addr: math.MaxUint64 - 1, Size: 3, Data: []byte("abc")}}}
	_, ok := last.Load(math.MaxUint64-1, 3)
	assert.False(t, ok, "beyond the address space")
	_, ok = last.Load(math.MaxUint64-1, 1)
	assert.True(t, ok)
	for _, x := range []struct {
		addr, size uint64
		want       string
		ok         bool
	}{{0x1000, 3, "abc", true}, {0x1001, 2, "bc", true}, {0x1003, 0, "", true}, {0x1001, 3, "", false},
		{0xfff, 2, "", false}, {0x1004, 0, "", false}, {0x1001, 1 << 63, "", false}, {1 << 63, 1, "", false}} {
		b, ok := r.Load(x.addr, x.size)
		assert.Equal(t, x.ok, ok, "%+v", x)
		assert.Equal(t, x.want, string(b), "%+v", x)
	}
	needs := []Range{{Addr: 5, Size: 6}, {Addr: 7, Size: MaxMemory - 6}}
	b, _ := encodeReply(&Reply{NeedMemory: needs, Stores: []Store{{Addr: 1, Data: []byte("x")}}})
	reply, err := parseReply(b, nil)
	require.NoError(t, err)
	assert.Equal(t, needs, reply.NeedMemory)
	for _, bad := range [][]Range{{{Size: MaxMemory + 1}}, {{Size: MaxMemory}, {Size: 1}}, make([]Range, MaxRanges+1)} {
		b, _ := encodeReply(&Reply{NeedMemory: bad})
		_, err := parseReply(b, nil)
		require.ErrorIs(t, err, errMessage)
	}
	_, err = parseReply(b[:len(b)-1], nil)
	require.ErrorIs(t, err, errMessage)
}

func FuzzRanges(f *testing.F) {
	f.Add(encodeRanges([]Range{{Addr: 0x1000, Data: []byte("abc")}, {Addr: 7}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := parseRanges(b)
		if err == nil {
			require.Equal(t, b, append([]byte{}, encodeRanges(list)...)[:len(b)])
		}
	})
}

func TestErrnoOf(t *testing.T) {
	assert.Equal(t, syscall.ENOENT, errnoOf(fmt.Errorf("x: %w", syscall.ENOENT)))
	assert.Equal(t, syscall.EIO, errnoOf(errors.New("x")))
}

func FuzzParse(f *testing.F) {
	f.Add(encodeRequest(&message{op: opWrite, files: 1, a: 5, data: []byte("x")}), 2)
	f.Add(encodeRequest(&message{op: opOpen, data: []byte("/dev/x")}), 1)
	f.Add(encodeRequest(&message{op: opBell}), 0)
	f.Fuzz(func(t *testing.T, b []byte, files int) {
		m, err := parse(b, files)
		if err != nil {
			return
		}
		require.LessOrEqual(t, m.files, uint32(1))
		require.Equal(t, m.op != opBell, files == 1+int(m.files))
		again, err := parse(encodeRequest(&m), files)
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
