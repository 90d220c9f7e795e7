package udp

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A privileged port receives over IPv4 from a raw socket, which has the IP headers, in addition to its bound UDP
// socket. The UDP socket still sends, and it keeps the system from answering packets with ICMP port unreachable. A
// filter drops what the UDP socket receives.

// privilegedHelp explains what Privileged needs.
const privilegedHelp = "Privileged needs the capability CAP_NET_RAW, for a raw socket that shows IPv4 headers: run " +
	"as root, or give it to " +
	"the program (setcap cap_net_raw+ep FILE; in a container, add the capability NET_RAW), or do without Privileged"

// openRaw returns a raw socket that receives what is sent to an IPv4 address, unicast or group.
func openRaw(at netip.AddrPort) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return -1, fmt.Errorf("%w: %s", err, privilegedHelp)
		}
		return -1, fmt.Errorf("raw socket: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferWish) // as for the UDP socket
	err = dropAll(fd)                                                       // until bind, all packets arrive
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4()})
	}
	if err == nil {
		err = filter(fd, udpTo(at.Port()))
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("raw socket: %w", err)
	}
	return fd, nil
}

// dropAll makes a socket drop all it receives.
func dropAll(fd int) error { return filter(fd, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}) }

// udpTo returns a filter that passes IPv4 packets to a UDP port.
func udpTo(port uint16) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0}, // x = length of the IP header
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 2},  // a = destination port
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(port)},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 18}, // pass the whole packet
		{Code: unix.BPF_RET | unix.BPF_K},
	}
}

func filter(fd int, f []unix.SockFilter) error {
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(f)),
		Filter: &f[0]}); err != nil {
		return fmt.Errorf("packet filter: %w", err)
	}
	return nil
}
