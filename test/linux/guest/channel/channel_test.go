package channel

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFrames(t *testing.T) {
	frames := []Frame{
		{Type: Setup, Body: []byte(`{}`)},
		{Session: 7, Type: Kill, Body: []byte{}},
		{Session: 0xffffffff, Type: Stdout, Body: bytes.Repeat([]byte{0xa5}, MaxBody)},
	}
	var w bytes.Buffer
	for _, f := range frames {
		require.NoError(t, Write(&w, f))
	}
	for _, want := range frames {
		got, err := Read(&w)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := Read(&w)
	require.Equal(t, io.EOF, err)
}

func TestBadFrames(t *testing.T) {
	tests := []struct {
		name string
		in   []byte
		want string
	}{
		{"cut header", []byte{0, 0, 0}, "unexpected EOF"},
		{"cut body", []byte{0, 0, 0, 2, 0, 0, 0, 1, byte(Stdout), 'x'}, "unexpected EOF"},
		{"no body", []byte{0, 0, 0, 2, 0, 0, 0, 1, byte(Stdout)}, "unexpected EOF"},
		{"too long", []byte{0, 1, 0, 1, 0, 0, 0, 1, byte(Stdout)}, "length 65537"},
		{"type 0", []byte{0, 0, 0, 0, 0, 0, 0, 1, 0}, "type 0"},
		{"type above", []byte{0, 0, 0, 0, 0, 0, 0, 1, byte(typeEnd)}, "type 9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(tt.in))
			require.ErrorContains(t, err, tt.want)
		})
	}
	require.ErrorContains(t, Write(io.Discard, Frame{Type: Stdout, Body: make([]byte, MaxBody+1)}), "65537 bytes")
	require.ErrorContains(t, Write(io.Discard, Frame{}), "type 0")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2, byte(Exit), 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		var out []byte
		for {
			fr, err := Read(r)
			if err != nil {
				if errors.Is(err, io.EOF) && len(out) != len(in) {
					t.Fatalf("clean end, but %d of %d bytes were frames", len(out), len(in))
				}
				break
			}
			if out, err = fr.Append(out); err != nil {
				t.Fatalf("a frame that was read cannot be written: %v", err)
			}
			if !bytes.Equal(out, in[:len(out)]) {
				t.Fatal("a frame changed by being read and written")
			}
		}
	})
}
