package uverbs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/memfd"
)

// TestSharedRegistration registers memory that comes with a file of the program. A file that the daemon must not map is
// not used: the memory is copied, if the program has it.
func TestSharedRegistration(t *testing.T) {
	size := 4 * os.Getpagesize()
	for _, x := range []struct {
		name     string
		sealed   bool
		offset   uint64
		none     bool // the program has no memory at that address
		mappings int
		errno    syscall.Errno
	}{
		{"sealed", true, 0, false, 1, 0},
		{"at an offset", true, uint64(size / 4), false, 1, 0},
		{"not sealed", false, 0, false, 0, 0},
		{"beyond the end", true, uint64(size), false, 0, 0},
		{"far beyond the end", true, -uint64(os.Getpagesize()), false, 0, 0},
		{"another offset in the page", true, 8, false, 0, 0},
		{"not sealed and not mapped", false, 0, true, 0, syscall.EFAULT},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t)
			p := r.context()
			var pd allocPDResp
			p.must(cmdAllocPD, allocPD{replyAddr}, &pd)
			file, err := os.Create(filepath.Join(t.TempDir(), "file"))
			require.NoError(t, err)
			require.NoError(t, file.Truncate(int64(size)))
			if x.sealed {
				require.NoError(t, file.Close())
				file, err = memfd.Create("test", size)
				require.NoError(t, err)
			}
			defer file.Close()
			b, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			require.NoError(t, err)
			at := ci.Bytes(b).Addr()
			if x.none {
				require.NoError(t, syscall.Munmap(b))
			} else {
				defer func() { require.NoError(t, syscall.Munmap(b)) }()
			}
			length, before := uint64(size/2), r.mappings()
			reg := func(file *os.File) *devices.Reply {
				return p.f.Call(&devices.Request{Data: encode(cmdRegMR, regMR{Response: replyAddr, Start: at,
					Length: length, HCAVA: at, PDHandle: pd.PDHandle, AccessFlags: accessLocalWrite}, nil, 76),
					File: file, Offset: x.offset})
			}
			reply := reg(file)
			require.Equal(t, x.errno, reply.Errno)
			assert.Equal(t, x.mappings, r.mappings()-before)
			if x.errno == 0 {
				require.Len(t, reply.Stores, 1)
				p.must(cmdDeregMR, byHandle{ne.Uint32(reply.Stores[0].Data)}, nil)
			}
			assert.Equal(t, before, r.mappings())
			p.must(cmdDeallocPD, byHandle{pd.PDHandle}, nil)
		})
	}
}

// mappings returns the number of mappings of the only client.
func (r *rig) mappings() int {
	clients := r.core.Status().Clients
	require.Len(r.t, clients, 1)
	return clients[0].Mappings
}
