package frame

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tap carries the frames of a TAP device.
type tap struct {
	f    *os.File
	done chan struct{}
	once sync.Once
	run  atomic.Bool
}

// OpenTAP opens a TAP device of this machine, which is created if it does not exist and then lasts as long as the
// carrier. It needs root, or a device that the user owns. The caller sets the interface up and gives it addresses. The
// interface has a carrier (NO-CARRIER of ip link) while the link of the port is up, or of another member of the hub.
func OpenTAP(name string) (Carrier, error) {
	const device = "/dev/net/tun"
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("frame: %s: %w", device, err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("frame: TAP device %q: %w", name, err)
	}
	return &tap{f: os.NewFile(uintptr(fd), name), done: make(chan struct{})}, nil
}

func (t *tap) Start(deliver func([][]byte), failed func(error)) error {
	if !t.run.CompareAndSwap(false, true) {
		return errStarted
	}
	go func() {
		defer close(t.done)
		b := make([]byte, MaxFrame)
		one := make([][]byte, 1)
		for {
			n, err := t.f.Read(b)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err != nil {
				failed(err)
				return
			}
			one[0] = b[:n]
			deliver(one)
		}
	}()
	return nil
}

func (t *tap) Send(frames [][]byte) (dropped int) {
	for _, f := range frames {
		if _, err := t.f.Write(f); err != nil { // EIO: the interface is down
			dropped++
		}
	}
	return dropped
}

// SetLink sets the carrier of the interface (Linux tun.c: TUNSETCARRIER, from Linux 5.0 on).
func (t *tap) SetLink(up bool) {
	c, err := t.f.SyscallConn()
	if err != nil {
		return // closed: there is no interface
	}
	value := 0
	if up {
		value = 1
	}
	// An older kernel, or an interface that somebody has removed, has no carrier to set.
	_ = c.Control(func(fd uintptr) { _ = unix.IoctlSetPointerInt(int(fd), unix.TUNSETCARRIER, value) })
}

func (t *tap) Close() (err error) {
	t.once.Do(func() {
		err = t.f.Close()
		if t.run.Load() {
			<-t.done
		}
	})
	return err
}
