package kproxy

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
)

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

// spansOf returns spans of pieces that are one behind the other from off on, each gap bytes behind the one before.
func spansOf(m ci.Memory, pieces [][]byte, off, gap int) (list []ci.Span) {
	for _, b := range pieces {
		if len(b) > 0 {
			list = append(list, ci.Span{Memory: m, Off: uint64(off), Bytes: b})
			off += len(b) + gap
		}
	}
	return list
}

// TestCopySpans copies lists of spans: none, as many as a system call takes and one more, more bytes than the buffers
// have, adjacent and apart. The bytes around them remain.
func TestCopySpans(t *testing.T) {
	const size = 3*copyChunk + 100
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	for name, set := range reaches {
		t.Run(name, func(t *testing.T) {
			page := os.Getpagesize()
			b := pages(t, 2*size/page+2)
			p := ownProcess()
			defer p.close()
			set(p)
			m, err := p.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
			require.NoError(t, err)
			for name, pieces := range map[string][][]byte{
				"none":      nil,
				"one":       {data[:5]},
				"one call":  cut(data[:maxVectors*10], 10),
				"two calls": cut(data[:maxVectors*10+10], 10),
				"many":      cut(data[:maxVectors*10*5+3], 10),
				"packets":   cut(data[:copyChunk], 1024),
				"large":     cut(data, 9000),
				"two parts": cut(data, copyChunk+1),
				"odd sizes": cut(data, 1, 4096, 17),
			} {
				for _, gap := range []int{0, 1} {
					clear(b)
					list := spansOf(m, pieces, 33, gap)
					done, err := p.CopySpans(list, true)
					require.NoError(t, err, name)
					require.Len(t, list, done)
					require.Equal(t, make([]byte, 33), b[:33], name)
					at := 33
					for _, s := range list {
						require.Equal(t, s.Bytes, b[at:at+len(s.Bytes)], name)
						at += len(s.Bytes)
						require.Equal(t, make([]byte, gap), b[at:at+gap], name)
						at += gap
					}
					require.Equal(t, make([]byte, 50), b[at:][:50], name)
					for i := range list {
						list[i].Bytes = make([]byte, len(list[i].Bytes))
					}
					done, err = p.CopySpans(list, false)
					require.NoError(t, err, name)
					require.Len(t, list, done)
					for _, s := range list {
						require.Equal(t, b[s.Off:][:len(s.Bytes)], s.Bytes, name)
					}
				}
			}
			if !p.reach.isBound { // /proc/PID/mem ignores the rights of pages
				clear(b)
				require.NoError(t, unix.Mprotect(b[page:2*page], unix.PROT_NONE))
				list := spansOf(m, cut(data[:3*page], 100), 0, 0)
				for _, write := range []bool{true, false} {
					done, err := p.CopySpans(list, write)
					require.Error(t, err, "the second page is not accessible")
					require.LessOrEqual(t, done, page/100)
					require.Greater(t, done, page/100-maxVectors)
				}
				assert.Zero(t, b[2*page])
				require.NoError(t, unix.Mprotect(b[page:2*page], unix.PROT_READ|unix.PROT_WRITE))
			}
			for _, off := range []int{len(b) - 19, -1} {
				done, err := p.CopySpans(spansOf(m, cut(data[:20], 10), off, 0), true)
				require.ErrorIs(t, err, ci.InvalidParameter)
				require.LessOrEqual(t, done, 1)
			}
			done, err := p.CopySpans([]ci.Span{{Memory: ci.Bytes(b), Bytes: b[:1]}}, true)
			require.ErrorIs(t, err, ci.InvalidParameter, "memory of another owner")
			require.Zero(t, done)
			p.close()
			_, err = p.CopySpans(spansOf(m, cut(data[:20], 10), 0, 0), true)
			require.ErrorIs(t, err, ci.InvalidState)
		})
	}
}

// TestCopySpansAllocations checks that copies of spans allocate nothing.
func TestCopySpansAllocations(t *testing.T) {
	b, data := pages(t, 32), make([]byte, copyChunk)
	for name, set := range reaches {
		p := ownProcess()
		set(p)
		m, err := p.Memory(ci.Bytes(b).Addr(), uint64(len(b)), ci.LocalWrite)
		require.NoError(t, err)
		list := spansOf(m, cut(data, 1024), 0, 0)
		write := func() { _, _ = p.CopySpans(list, true) }
		write() // makes the buffer
		assert.Less(t, testing.AllocsPerRun(100, write), 1.0, name)
		p.close()
	}
}

// BenchmarkSpans compares copies of 64 spans, adjacent and apart, by one call and by a call for each.
func BenchmarkSpans(b *testing.B) {
	to, data := make([]byte, 1<<20), make([]byte, copyChunk)
	for _, name := range []string{"by number", "bound", "not trusted"} {
		p := ownProcess()
		reaches[name](p)
		m, err := p.Memory(ci.Bytes(to).Addr(), uint64(len(to)), ci.LocalWrite)
		require.NoError(b, err)
		for what, list := range map[string][]ci.Span{
			"1 KiB":             spansOf(m, cut(data, 1024), 0, 0),
			"64 B on a page":    spansOf(m, cut(data[:64*64], 64), 0, 0),
			"64 B on each page": spansOf(m, cut(data[:64*64], 64), 0, 4032),
		} {
			b.Run(name+"/at once/"+what, func(b *testing.B) {
				for b.Loop() {
					_, err := p.CopySpans(list, true)
					require.NoError(b, err)
				}
			})
			b.Run(name+"/each/"+what, func(b *testing.B) {
				for b.Loop() {
					for i := range list {
						_, err := p.CopySpans(list[i:i+1], true)
						require.NoError(b, err)
					}
				}
			})
		}
		p.close()
	}
}
