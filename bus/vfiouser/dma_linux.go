package vfiouser

import (
	"os"

	"golang.org/x/sys/unix"
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
	var b []byte
	if len(m.files) == 1 {
		var err error
		if b, err = mapFile(m.files[0], r.Offset, r.Size, r.Flags&dmaWrite != 0); err != nil {
			return nil, errnoOf(err)
		}
	}
	writable := r.Flags&dmaWrite != 0
	var err error
	if b == nil && s.twin != nil {
		err = s.memory.AddRemote(r.IOVA, r.Size, &farMemory{s.twin, r.IOVA}, writable)
	} else {
		err = s.memory.Add(r.IOVA, r.Size, b, writable)
	}
	if err != nil {
		s.unmap([][]byte{b})
		return nil, errnoOf(err)
	}
	return nil, 0
}

// mapFile maps n bytes of a file.
func mapFile(f *os.File, off, n uint64, writable bool) (b []byte, err error) {
	i, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size := uint64(i.Size()); off > size || n > size-off {
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
		}
	}
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
