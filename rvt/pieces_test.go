package rvt

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// pieceMemory takes pieces at once, and counts copies.
type pieceMemory struct {
	ci.Memory
	t     *testing.T
	calls atomic.Int64
	fail  atomic.Bool
}

func (m *pieceMemory) Slice(uint64, uint64) []byte { return nil }

func (m *pieceMemory) WriteAt(p []byte, off int64) (int, error) {
	m.calls.Add(1)
	if m.fail.Load() {
		return 0, ci.InvalidState
	}
	return m.Memory.WriteAt(p, off)
}

// WritePieces implements PieceMemory.
func (m *pieceMemory) WritePieces(pieces [][]byte, n int, off int64) error {
	b := bytes.Join(pieces, nil)
	require.Len(m.t, b, n)
	_, err := m.WriteAt(b, off)
	return err
}

// plainMemory has only the methods of ci.Memory.
type plainMemory struct{ ci.Memory }

// TestPieceMemory receives messages to memory that takes several pieces at once: as the target of a WRITE, and in a
// scatter list whose entries end within packets. The data is the same as in memory that does not, with fewer copies.
func TestPieceMemory(t *testing.T) {
	const packets, mtu = 16, 1024
	for _, n := range []int{0, 1, 7, mtu - 1, mtu, mtu + 1, packets * mtu, packets*mtu - 3} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i*7 + i>>8 + 1)
		}
		var payload [][]byte
		for b := data; len(b) > 0; b = b[min(len(b), mtu):] {
			payload = append(payload, b[:min(len(b), mtu)])
		}
		var copies [2]int64
		for k, takes := range []bool{true, false} {
			b := make([]byte, packets*mtu+64)
			m := &pieceMemory{Memory: ci.Bytes(b), t: t}
			var memory ci.Memory = m
			if !takes {
				memory = plainMemory{m}
			}
			y := newStorage([]segment{{n: uint64(len(b)), m: memory}})
			require.Equal(t, takes, y.pieces != nil)
			for _, last := range []bool{true, false} {
				clear(b)
				turn := new(turn)
				require.Equal(t, placed, turn.storeAt(mem{y, 5}, payload, uint32(n), last))
				require.Equal(t, data, b[5:5+n])
				require.Equal(t, make([]byte, 5), b[:5])
				require.Equal(t, make([]byte, 59), b[5+n:][:59])
				for _, p := range turn.pieces {
					require.Nil(t, p, "a turn keeps no data")
				}
			}
			copies[k] = m.calls.Load()
			if n > 0 {
				beyond := mem{y, uint64(len(b) - n + 1)}
				require.Equal(t, access, new(turn).storeAt(beyond, payload, uint32(n), false))
				m.fail.Store(true)
				require.Equal(t, access, new(turn).storeAt(mem{y, 5}, payload, uint32(n), true))
			}
		}
		if n >= 3*mtu {
			require.Less(t, copies[0], int64(6), "%d bytes", n)
			require.Greater(t, copies[1], int64(2*n/mtu-1), "%d bytes", n)
		}
	}
}

// TestScatterPieces copies pieces to entries of a scatter list that end within pieces.
func TestScatterPieces(t *testing.T) {
	const size = 3000
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*11 + i>>8 + 1)
	}
	for _, takes := range []bool{true, false} {
		b := make([]byte, 2*size)
		m := &pieceMemory{Memory: ci.Bytes(b), t: t}
		var memory ci.Memory = m
		if !takes {
			memory = plainMemory{m}
		}
		y := newStorage([]segment{{n: uint64(len(b)), m: memory}})
		src, turn := pieceSource{pieces: [][]byte{data[:1000], {}, data[1000:1001], data[1001:]}}, new(turn)
		at := uint64(0)
		for _, n := range []uint32{0, 1, 500, 499, 1, 1500, 0, 499} {
			require.NoError(t, turn.scatterPart(mem{y, 2 * at}, &src, n))
			require.Equal(t, data[at:at+uint64(n)], b[2*at:2*at+uint64(n)], "entry of %d bytes at %d", n, at)
			at += uint64(n)
		}
		require.EqualValues(t, size, at)
		require.Empty(t, src.pieces)
	}
}
