package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/internal/pcapfile"
)

// Capture records the frames of one guest's link, in both directions, as a pcapng stream of Ethernet frames.
type Capture struct {
	fd   int
	stop int // eventfd that wakes the reader
	done chan struct{}
	once sync.Once
	err  error
}

// Capture writes the frames on the guest's tap to w. The frames are complete, because the tap has no offloads.
func (g *Guest) Capture(w io.Writer) (*Capture, error) {
	c := &Capture{done: make(chan struct{})}
	if err := g.net.ns.do(func() error { return c.open(g.tap) }); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	file, err := pcapfile.NewWriter(w, pcapfile.Interface{Name: g.tap, Link: pcapfile.Ethernet})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("capture: %w", err), unix.Close(c.fd), unix.Close(c.stop))
	}
	go func() {
		defer close(c.done)
		c.err = errors.Join(c.copy(file), file.Flush())
	}()
	return c, nil
}

const snapLen = 64 << 10

func (c *Capture) open(iface string) (err error) {
	proto := int(binary.NativeEndian.Uint16([]byte{byte(unix.ETH_P_ALL >> 8), byte(unix.ETH_P_ALL & 0xff)}))
	// Protocol 0 keeps the socket from receiving frames of other interfaces before it is bound.
	if c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			unix.Close(c.fd)
		}
	}()
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20); err != nil {
		return err
	}
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return err
	}
	if err := unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: uint16(proto), Ifindex: i.Index}); err != nil {
		return err
	}
	c.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	return err
}

// copy writes frames until Stop has been called and none is left.
func (c *Capture) copy(w *pcapfile.Writer) error {
	buf := make([]byte, snapLen)
	for {
		n, err := unix.Read(c.fd, buf)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			p := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}, {Fd: int32(c.stop), Events: unix.POLLIN}}
			if _, err := unix.Poll(p, -1); err != nil && err != unix.EINTR {
				return err
			}
			if p[0].Revents == 0 && p[1].Revents != 0 {
				return c.dropped()
			}
		case err != nil: // ENETDOWN: the guest has ended
			return err
		default:
			if err := w.Write(&pcapfile.Packet{Time: time.Now(), Received: true, Data: buf[:n]}); err != nil {
				return err
			}
		}
	}
}

func (c *Capture) dropped() error {
	s, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return err
	}
	if s.Drops > 0 {
		return fmt.Errorf("%d of %d frames were dropped", s.Drops, s.Packets)
	}
	return nil
}

// Stop ends the capture after all frames that crossed the tap before the call. It may be called more than once. It
// returns the error of the writer, or an error if frames were lost.
func (c *Capture) Stop() error {
	c.once.Do(func() {
		_, err := unix.Write(c.stop, binary.NativeEndian.AppendUint64(nil, 1))
		if err == nil {
			<-c.done
		}
		c.err = errors.Join(c.err, err, unix.Close(c.fd), unix.Close(c.stop))
		if c.err != nil {
			c.err = fmt.Errorf("capture: %w", c.err)
		}
	})
	return c.err
}
