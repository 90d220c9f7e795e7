package kproxy

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/rvt"
)

var _ rvt.PieceMemory = (*processMemory)(nil)

// reaches are the ways to reach the memory of a process.
var reaches = map[string]func(p *process){
	"by number":   func(p *process) { p.reach.isBound = false },
	"bound":       func(p *process) { p.reach.isBound = true },
	"not trusted": func(p *process) { p.reach.isBound, p.isTrusted = false, false },
}

// cut returns b in pieces of the given sizes in turn, and what is left as the last one.
func cut(b []byte, sizes ...int) (pieces [][]byte) {
	for i := 0; len(b) > 0; i++ {
		n := min(len(b), sizes[i%len(sizes)])
		pieces, b = append(pieces, b[:n]), b[n:]
	}
	return pieces
}

// TestWritePieces copies lists of pieces: none, empty ones, as many as a system call takes and one more, and more bytes
// than the buffers have. The bytes around them remain.
func TestWritePieces(t *testing.T) {
	const size = 3*copyChunk + 100
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	for name, set := range reaches {
		t.Run(name, func(t *testing.T) {
			b := pages(t, size/os.Getpagesize()+2)
			p := ownProcess()
			defer p.close()
			set(p)
			memory, err := p.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
			require.NoError(t, err)
			m := memory.(rvt.PieceMemory)
			for name, pieces := range map[string][][]byte{
				"none":         nil,
				"one":          {data[:5]},
				"an empty one": {{}, data[:3], {}, data[3:5], {}},
				"one call":     cut(data[:maxPieces*10], 10),
				"two calls":    cut(data[:maxPieces*10+10], 10),
				"many":         cut(data[:maxPieces*10*5+3], 10),
				"packets":      cut(data[:copyChunk], 1024),
				"large":        cut(data, 9000),
				"two halves":   cut(data, copyChunk+1),
				"odd sizes":    cut(data, 1, 4096, 17),
			} {
				clear(b)
				want := bytes.Join(pieces, nil)
				require.NoError(t, m.WritePieces(pieces, len(want), 33), name)
				require.Equal(t, want, b[33:33+len(want)], name)
				require.Equal(t, make([]byte, 33), b[:33], name)
				require.Equal(t, make([]byte, 50), b[33+len(want):][:50], name)
			}
			require.ErrorIs(t, m.WritePieces(cut(data[:20], 10), 20, int64(len(b)-19)), ci.InvalidParameter)
			require.ErrorIs(t, m.WritePieces(cut(data[:20], 10), 20, -1), ci.InvalidParameter)
			if !p.reach.isBound { // /proc/PID/mem ignores the rights of pages
				page := os.Getpagesize()
				clear(b)
				require.NoError(t, unix.Mprotect(b[page:2*page], unix.PROT_NONE))
				require.Error(t, m.WritePieces(cut(data[:3*page], 100), 3*page, 0), "the second page cannot be written")
				assert.Zero(t, b[2*page])
				require.NoError(t, unix.Mprotect(b[page:2*page], unix.PROT_READ|unix.PROT_WRITE))
			}
			p.close()
			require.ErrorIs(t, m.WritePieces(cut(data[:20], 10), 20, 0), ci.InvalidState)
		})
	}
}

// TestWritePiecesAllocations checks that copies of pieces allocate nothing.
func TestWritePiecesAllocations(t *testing.T) {
	b, data := pages(t, 32), make([]byte, copyChunk)
	for name, set := range reaches {
		p := ownProcess()
		set(p)
		memory, err := p.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
		require.NoError(t, err)
		m, pieces := memory.(rvt.PieceMemory), cut(data, 1024)
		write := func() { _ = m.WritePieces(pieces, len(data), 0) }
		write() // makes the buffer
		assert.Less(t, testing.AllocsPerRun(100, write), 1.0, name)
		p.close()
	}
}

// BenchmarkPieces compares a copy of 64 pieces of 1 KiB, which is a message of 64 KiB in packets, by one call and by a
// call for each.
func BenchmarkPieces(b *testing.B) {
	to, data := make([]byte, copyChunk), make([]byte, copyChunk)
	pieces := cut(data, 1024)
	for _, name := range []string{"by number", "bound", "not trusted"} {
		p := ownProcess()
		reaches[name](p)
		memory, err := p.Memory(ci.Bytes(to).Addr(), uint64(len(to)), ci.LocalWrite)
		require.NoError(b, err)
		m := memory.(rvt.PieceMemory)
		b.Run(name+"/at once", func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, m.WritePieces(pieces, len(data), 0))
			}
		})
		b.Run(name+"/each", func(b *testing.B) {
			for b.Loop() {
				for i, x := range pieces {
					_, err := m.WriteAt(x, int64(i*1024))
					require.NoError(b, err)
				}
			}
		})
		p.close()
	}
}
