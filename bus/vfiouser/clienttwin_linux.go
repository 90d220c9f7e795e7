package vfiouser

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"ciddk/bus"
)

// startTwin takes the twin socket from the server's reply, and serves it.
func (f *Function) startTwin(m *message, i int) error {
	if i < 0 || i >= len(m.files) {
		return fmt.Errorf("vfiouser: the twin socket is descriptor %d of %d", i, len(m.files))
	}
	file := m.files[i]
	m.files, m.kinds = slices.Delete(m.files, i, i+1), slices.Delete(m.kinds, i, i+1)
	c, err := unixConn(file)
	if err != nil {
		return err
	}
	f.twin, f.twinEnded = &conn{c: c}, make(chan struct{})
	go f.serveTwin()
	return nil
}

// stopTwin ends the twin socket, and what the device reaches through it.
func (f *Function) stopTwin() {
	if f.twin != nil {
		f.twin.c.Close()
		<-f.twinEnded
	}
	f.memory.Clear()
}

// serveTwin executes the requests of the server until the socket ends. The connection does not outlive it.
func (f *Function) serveTwin() {
	defer close(f.twinEnded)
	defer f.c.c.Close()
	defer f.twin.c.Close()
	buf := make([]byte, maxMessage)
	var out []byte
	for {
		m, err := f.twin.receive(buf)
		if err != nil {
			return
		}
		m.closeFiles()
		if m.isReply() {
			return
		}
		h := header{ID: m.ID, Command: m.Command, Flags: flagReply}
		out = append(out[:0], make([]byte, headerSize)...)
		var errno unix.Errno
		if out, errno = f.accessMemory(&m, out); errno != 0 {
			h.Flags, h.Errno = flagReply|flagError, uint32(errno)
			out = out[:headerSize]
		}
		if m.Flags&flagNoReply != 0 {
			continue
		}
		if f.twin.send(h, out) != nil {
			return
		}
	}
}

// accessMemory executes a request of the server, and appends the body of its reply.
func (f *Function) accessMemory(m *message, out []byte) ([]byte, unix.Errno) {
	if m.Command != cmdDMARead && m.Command != cmdDMAWrite {
		return out, unix.ENOTSUP
	}
	a, data, ok := parseDMAAccess(m.body)
	if !ok {
		return out, unix.EINVAL
	}
	out = a.append(out)
	if m.Command == cmdDMAWrite {
		if uint64(len(data)) != a.Count {
			return out, unix.EINVAL
		}
		if !f.memory.Write(a.Address, data) {
			return out, unix.EFAULT
		}
		return out, 0
	}
	at := len(out)
	out = append(out, make([]byte, a.Count)...)
	if len(data) != 0 {
		return out, unix.EINVAL
	}
	if !f.memory.Read(a.Address, out[at:]) {
		return out, unix.EFAULT
	}
	return out, 0
}

// lend makes memory reachable by messages.
func (f *Function) lend(m bus.Memory) (*bus.DMA, error) {
	if f.twin == nil {
		return nil, fmt.Errorf("%w: it is not memory of a file, and the server has no twin socket", bus.ErrNotMappable)
	}
	offset, size, err := m.Pages()
	if err != nil {
		return nil, err
	}
	n := m.Len()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, bus.ErrClosed
	}
	first := f.nextIOVA
	iova := first + offset
	if err := f.memory.AddMemory(iova, m); err != nil {
		return nil, err
	}
	r := dmaMap{Flags: dmaRead | dmaWrite, IOVA: first, Size: size}
	if _, err := f.request(cmdDMAMap, r.append(start(dmaMapSize))); err != nil {
		_, e := f.memory.Remove(iova, n)
		return nil, errors.Join(err, e)
	}
	f.nextIOVA += size + uint64(os.Getpagesize()) // an access beyond the end fails
	f.mapped[first] = nil
	return bus.NewDMA(m, iova, func() error { return f.takeBack(first, size, iova, n) }), nil
}

// takeBack ends what lend began, also when the function has gone.
func (f *Function) takeBack(first, size, iova, n uint64) error {
	err := f.unshare(first, size)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return err
	}
	_, e := f.memory.Remove(iova, n)
	return errors.Join(err, e)
}
