package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// TestHeldAccess reaches a queue of four pages within one access. The first two pages are contiguous, the third is
// elsewhere, and the host has mapped the last for reading only.
func TestHeldAccess(t *testing.T) {
	t.Parallel()
	const page = prm.ICMPageSize
	m, mtts, data, _ := translated(t, 1)
	rom := make([]byte, page)
	require.NoError(t, m.host.Load().Memory().Add(0x900000, page, rom, false))
	bigEndian.PutUint64(mtts[2*mttEntry:], 0x107000|1)
	bigEndian.PutUint64(mtts[3*mttEntry:], 0x900000|1)
	b := &queueBuffer{}
	var ok bool
	b.buffer, ok = m.newBuffer(0, 12, 4*page)
	require.True(t, ok)
	b.hold()
	defer b.release()
	for range 2 {
		for _, tt := range []struct {
			name    string
			off, n  uint64
			write   bool
			at      []byte // the first byte
			missing uint64 // bytes beyond what is contiguous
		}{
			{"first", 0, 64, true, data, 0},
			{"across contiguous pages", page - 32, 64, true, data[page-32:], 0},
			{"across others", 2*page - 32, 64, true, data[2*page-32:], 32},
			{"third", 2 * page, 64, true, data[7*page:], 0},
			{"before the last access", page, 64, false, data[page:], 0},
			{"read only", 3 * page, 64, false, rom, 0},
			{"write to read only", 3 * page, 64, true, nil, 0},
			{"read only again", 3*page + 64, 64, false, rom[64:], 0},
			{"end", 4*page - 64, 64, false, rom[page-64:], 0},
			{"beyond the end", 4*page - 32, 64, false, nil, 0},
			{"outside", 5 * page, 4, false, nil, 0},
		} {
			s := b.direct(tt.off, tt.n, tt.write)
			if tt.at == nil {
				require.Nil(t, s, tt.name)
				continue
			}
			require.Len(t, s, int(tt.n-tt.missing), tt.name)
			require.Same(t, &tt.at[0], &s[0], tt.name)
		}
	}

	b.release()
	h := memoryHost{bus.NewMap()}
	m.host.Store(&attachment{h})
	b.hold()
	require.Nil(t, b.direct(0, 64, false), "of the access before")
}
