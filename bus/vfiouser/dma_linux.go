package vfiouser

import (
	"fmt"
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"ciddk/internal/memlimit"
	"ciddk/internal/passedfd"
)

// dmaMap maps memory of the driver's side. Without a descriptor, the device reaches it by messages on the twin socket.
// If there is none, the range has no memory that the device can reach.
func (s *session) dmaMap(m *message) ([]byte, unix.Errno) {
	r, ok := parseDMAMap(m.body)
	page := uint64(os.Getpagesize())
	if !ok || r.Size == 0 || r.IOVA%page != 0 || r.Size%page != 0 || r.Offset%page != 0 || len(m.files) > 1 ||
		r.Size > 1<<46 || r.Flags&(dmaRead|dmaWrite) == 0 {
		return nil, unix.EINVAL
	}
	writable := r.Flags&dmaWrite != 0
	var b []byte
	var err error
	switch {
	case len(m.files) == 1 && m.kinds[0] != passedfd.Memory && m.kinds[0] != passedfd.Disk:
		return nil, unix.EINVAL
	case len(m.files) == 1 && !mappings.reserve(r.Size):
		return nil, unix.ENOSPC
	case len(m.files) == 1:
		if b, err = mapFile(m.files[0], r.Offset, r.Size, writable); err != nil {
			mappings.release(r.Size)
			return nil, errnoOf(err)
		}
		if keepsSize(m.files[0]) {
			err = s.memory.Add(r.IOVA, r.Size, b, writable)
		} else {
			err = s.memory.AddGuarded(r.IOVA, b, writable, s.fault)
		}
	case s.twin != nil:
		err = s.memory.AddRemote(r.IOVA, r.Size, &farMemory{s.twin, r.IOVA}, writable)
	default:
		err = s.memory.Add(r.IOVA, r.Size, nil, writable)
	}
	if err != nil {
		s.unmap([][]byte{b})
		return nil, errnoOf(err)
	}
	return nil, 0
}

// fault ends the session after an access to memory that its file has not.
func (s *session) fault(iova uint64) {
	s.end(fmt.Errorf("vfiouser: memory of the driver's side is missing at %#x: its file was truncated, or its file "+
		"system is full (a memfd with F_SEAL_SHRINK, such as QEMU's memory-backend-memfd, cannot be)", iova))
}

// keepsSize reports whether a file is memory that cannot shrink, and whose pages exist when they are used. Huge pages
// may be missing then.
func keepsSize(f *os.File) (ok bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		seals, err := unix.FcntlInt(fd, unix.F_GET_SEALS, 0)
		var fs unix.Statfs_t
		ok = err == nil && seals&unix.F_SEAL_SHRINK != 0 && unix.Fstatfs(int(fd), &fs) == nil &&
			fs.Type == unix.TMPFS_MAGIC
	})
	return ok && err == nil
}

// mapFile maps n bytes of a file.
func mapFile(f *os.File, off, n uint64, writable bool) (b []byte, err error) {
	i, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size := uint64(i.Size()); off > size || n > size-off || n > math.MaxInt {
		return nil, unix.EINVAL // an access beyond the end is a fault
	}
	rights := unix.PROT_READ
	if writable {
		rights |= unix.PROT_WRITE
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) {
		b, err = unix.Mmap(int(fd), int64(off), int(n), rights, unix.MAP_SHARED)
	}); e != nil {
		return nil, e
	}
	return b, err
}

// unmap releases memory that the device no longer uses.
func (s *session) unmap(list [][]byte) {
	for _, b := range list {
		if b != nil {
			_ = unix.Munmap(b) // mapped by mapFile, and intact
			mappings.release(uint64(len(b)))
		}
	}
}

// mappings are those of all sessions of the process, which needs mappings and addresses of its own: a client could
// take all that the system permits (vm.max_map_count, 65530) with pieces of one file.
var mappings budget

type budget struct {
	mu           sync.Mutex
	count, bytes uint64
}

// Limits of all mappings of a process.
const (
	maxMappings = 16384
	maxMapped   = 1 << 44
)

// reserve counts a mapping, unless there are too many.
func (m *budget) reserve(n uint64) bool {
	limit := min(maxMapped, uint64(memlimit.Mapped()))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count == maxMappings || n > limit || m.bytes > limit-n {
		return false
	}
	m.count++
	m.bytes += n
	return true
}

func (m *budget) release(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count--
	m.bytes -= n
}

func (s *session) dmaUnmap(b []byte) ([]byte, unix.Errno) {
	r, ok := parseDMAUnmap(b)
	switch {
	case !ok || r.Flags&^dmaUnmapAll != 0:
		return nil, unix.EINVAL
	case r.Flags == dmaUnmapAll:
		s.unmap(s.memory.Clear())
	default:
		list, err := s.memory.Remove(r.IOVA, r.Size)
		if err != nil {
			return nil, errnoOf(err)
		}
		s.unmap(list)
	}
	return r.append(start(dmaUnmapSize)), 0
}
