package udpend

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"ciddk/wire"
)

// ipv6Flowinfo is IPV6_FLOWINFO of linux/in6.h.
const ipv6Flowinfo = 11

// options sets socket options of type int.
func options(c *net.UDPConn, level int, list ...[2]int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var in error
	err = raw.Control(func(fd uintptr) {
		for _, o := range list {
			if in = unix.SetsockoptInt(int(fd), level, o[0], o[1]); in != nil {
				return
			}
		}
	})
	return errors.Join(err, in)
}

// dontFragment makes the system set DF and send 0 as the identification of each packet. The ICRC that the certifier
// computes covers both.
func dontFragment(c *net.UDPConn) error {
	return options(c, unix.IPPROTO_IP, [2]int{unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO})
}

// showFields makes a socket report fields of the IP header with each datagram. It returns which fields these are.
func showFields(c *net.UDPConn, v6 bool) (class, hops, label bool, err error) {
	if v6 {
		return true, true, true, options(c, unix.IPPROTO_IPV6,
			[2]int{unix.IPV6_RECVTCLASS, 1}, [2]int{unix.IPV6_RECVHOPLIMIT, 1}, [2]int{ipv6Flowinfo, 1})
	}
	return true, true, false, options(c, unix.IPPROTO_IP, [2]int{unix.IP_RECVTOS, 1}, [2]int{unix.IP_RECVTTL, 1})
}

// sentClass returns the control message with which a socket sends the traffic class of a packet; nil for class 0.
func sentClass(packet []byte) []byte {
	level, typ, class := unix.IPPROTO_IP, unix.IP_TOS, packet[1]
	if packet[0]>>4 == 6 {
		level, typ, class = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, packet[0]<<4|packet[1]>>4
	}
	if class == 0 {
		return nil
	}
	b, head := make([]byte, unix.CmsgSpace(4)), unix.CmsgLen(0)
	if n := uint64(unix.CmsgLen(4)); head == 16 {
		binary.NativeEndian.PutUint64(b, n)
	} else {
		binary.NativeEndian.PutUint32(b, uint32(n))
	}
	binary.NativeEndian.PutUint32(b[head-8:], uint32(level))
	binary.NativeEndian.PutUint32(b[head-4:], uint32(typ))
	binary.NativeEndian.PutUint32(b[head:], uint32(class))
	return b
}

// shownFields returns the fields that a socket reported. Others are 0.
func shownFields(control []byte) (f fields) {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return f
	}
	for _, m := range list {
		whole := func() uint32 {
			if len(m.Data) < 4 {
				return 0
			}
			return binary.NativeEndian.Uint32(m.Data)
		}
		switch [2]int32{m.Header.Level, m.Header.Type} {
		case [2]int32{unix.IPPROTO_IP, unix.IP_TOS}:
			if len(m.Data) > 0 {
				f.class = m.Data[0]
			}
		case [2]int32{unix.IPPROTO_IP, unix.IP_TTL}, [2]int32{unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT}:
			f.hops = uint8(whole())
		case [2]int32{unix.IPPROTO_IPV6, unix.IPV6_TCLASS}:
			f.class = uint8(whole())
		case [2]int32{unix.IPPROTO_IPV6, ipv6Flowinfo}:
			if len(m.Data) >= 4 {
				f.label = binary.BigEndian.Uint32(m.Data) & wire.MaskFlowLabel
			}
		}
	}
	return f
}

// rawHeaders is a raw socket beside the UDP socket of an end. The system passes each packet to it first, with its IPv4
// header. Datagrams of a sender on this machine that uses segmentation offload arrive here in one piece, since loopback
// does not segment it. Each datagram of a piece then gets the header that segmentation would give it: a consecutive
// identification, and its own length and checksum.
type rawHeaders struct {
	fd       int
	at       netip.AddrPort
	buf      []byte
	head     []byte // IP and UDP header of the piece
	rest     []byte // payload of the piece that has not been returned
	numTaken uint16 // datagrams of the piece that have been returned
}

// openRawHeaders opens a raw socket. It needs CAP_NET_RAW.
func openRawHeaders(addr netip.Addr, port uint16) (*rawHeaders, error) {
	const flags = unix.SOCK_RAW | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	fd, err := unix.Socket(unix.AF_INET, flags, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("raw socket for --set privileged=1 (it needs CAP_NET_RAW): %w", err)
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, endBuffer),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.As4()}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("raw socket: %w", err), unix.Close(fd))
	}
	return &rawHeaders{fd: fd, at: netip.AddrPortFrom(addr, port), buf: make([]byte, 1<<16)}, nil
}

// of returns a datagram that the UDP socket received, with the IPv4 header that it arrived with.
func (r *rawHeaders) of(whole []byte) ([]byte, error) {
	const head = wire.IPv4Len + wire.UDPLen
	payload := whole[head:]
	for !r.isNext(whole, payload) {
		if err := r.next(); err != nil {
			return nil, fmt.Errorf("the header of a datagram of %d bytes: %w", len(payload), err)
		}
	}
	one := r.numTaken == 0 && len(r.rest) == len(payload)
	r.rest = r.rest[len(payload):]
	out := append(bytes.Clone(r.head), payload...)
	if !one {
		var ip wire.IPv4
		if err := ip.Parse(r.buf); err != nil {
			return nil, err
		}
		ip.TotalLen, ip.ID = uint16(len(out)), ip.ID+r.numTaken
		ip.SetChecksum()
		ip.Put(out)
		binary.BigEndian.PutUint16(out[wire.IPv4Len+4:], uint16(len(out)-wire.IPv4Len))
	}
	r.numTaken++
	return out, nil
}

// isNext reports whether the piece continues with the payload of whole, from the same source port.
func (r *rawHeaders) isNext(whole, payload []byte) bool {
	if len(r.rest) == 0 || !bytes.HasPrefix(r.rest, payload) {
		return false
	}
	return bytes.Equal(r.head[wire.IPv4Len:wire.IPv4Len+2], whole[wire.IPv4Len:wire.IPv4Len+2])
}

// next reads the next piece from the socket. Its header stays at the start of buf.
func (r *rawHeaders) next() error {
	for {
		n, _, err := unix.Recvfrom(r.fd, r.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("raw socket: %w", err)
		}
		b := r.buf[:n]
		_, dst, payload, err := datagram(b)
		if err != nil || b[0] != 0x45 || dst != r.at {
			continue // for another port, or not passed on by the UDP socket
		}
		r.head, r.rest, r.numTaken = b[:n-len(payload)], payload, 0
		return nil
	}
}

func (r *rawHeaders) close() error { return unix.Close(r.fd) }

// InNetwork returns a function that runs another in a network namespace, such as /run/netns/peer. It needs
// CAP_SYS_ADMIN.
func InNetwork(path string) (func(func() error) error, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return func(f func() error) error {
		res := make(chan error, 1)
		go func() {
			// The thread stays locked, and ends with the goroutine: it is in the other namespace.
			runtime.LockOSThread()
			there, err := os.Open(path)
			if err == nil {
				err = errors.Join(unix.Setns(int(there.Fd()), unix.CLONE_NEWNET), there.Close())
			}
			if err != nil {
				res <- fmt.Errorf("network namespace %s: %w", path, err)
				return
			}
			res <- f()
		}()
		return <-res
	}, nil
}
