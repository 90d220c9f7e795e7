package uverbs

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/kproxy/devices"
)

// TestSharedRegistration registers memory that comes with a file of the program. A file that the daemon must not map is
// not used: the memory is copied, if the program has it.
func TestSharedRegistration(t *testing.T) {
	const seals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK
	size := 4 * os.Getpagesize()
	for _, x := range []struct {
		name     string
		seals    int
		offset   uint64
		none     bool // the program has no memory at that address
		mappings int
		errno    syscall.Errno
	}{
		{"sealed", seals, 0, false, 1, 0},
		{"at an offset", seals, uint64(size / 4), false, 1, 0},
		{"not sealed", 0, 0, false, 0, 0},
		{"may be shortened", unix.F_SEAL_GROW, 0, false, 0, 0},
		{"beyond the end", seals, uint64(size), false, 0, 0},
		{"far beyond the end", seals, -uint64(os.Getpagesize()), false, 0, 0},
		{"another offset in the page", seals, 8, false, 0, 0},
		{"not sealed and not mapped", 0, 0, true, 0, syscall.EFAULT},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t)
			p := r.context()
			var pd allocPDResp
			p.must(cmdAllocPD, allocPD{replyAddr}, &pd)
			fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
			require.NoError(t, err)
			file := os.NewFile(uintptr(fd), "test")
			defer file.Close()
			require.NoError(t, file.Truncate(int64(size)))
			b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			require.NoError(t, err)
			at := ci.Bytes(b).Addr()
			if x.none {
				require.NoError(t, unix.Munmap(b))
			} else {
				defer func() { require.NoError(t, unix.Munmap(b)) }()
			}
			if x.seals != 0 {
				_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, x.seals)
				require.NoError(t, err)
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
