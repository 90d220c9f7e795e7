package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// netspace is a network namespace of this process. Its loopback interface has the IPv6 addresses that the link udp
// needs, since the machine's own loopback has only one. The namespace belongs to a thread and ends with the process. It
// changes nothing on the machine. Creating one needs CAP_SYS_ADMIN.
type netspace struct{ jobs chan func() }

// space6 returns the process's namespace. It is created once, because that takes some time and every case opens a
// target.
var space6 = sync.OnceValues(func() (*netspace, error) { return newNetspace(addrs6()) })

// newNetspace creates a namespace and adds the addresses to its loopback interface.
func newNetspace(addrs []netip.Addr) (*netspace, error) {
	n := &netspace{jobs: make(chan func())}
	started := make(chan error)
	go func() {
		// The thread is never unlocked, so that no other goroutine runs in the namespace.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = setLoopback(addrs)
		}
		if err == nil {
			err = routeGroups()
		}
		for i := 0; err == nil && i < len(addrs); i++ {
			err = reachable(addrs[i])
		}
		started <- err
		if err != nil {
			return // the runtime then ends the locked thread, and with it the namespace
		}
		for f := range n.jobs {
			f()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return n, nil
}

// do runs f in the namespace. Sockets that f opens belong to it. Calls run one after another.
func (n *netspace) do(f func() error) error {
	res := make(chan error, 1)
	n.jobs <- func() { res <- f() }
	return <-res
}

// reachable waits until packets to an address of the namespace arrive. The system creates the route to a new address
// asynchronously, and packets sent before that are lost.
func reachable(a netip.Addr) error {
	c, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return err
	}
	for end := time.Now().Add(2 * time.Second); ; {
		_, err = c.WriteTo([]byte{0}, c.LocalAddr())
		if err == nil {
			if err = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err == nil {
				_, _, err = c.ReadFrom(make([]byte, 1))
			}
		}
		if err == nil || time.Now().After(end) {
			return errors.Join(err, c.Close())
		}
	}
}

// loopbackIndex is the index of the loopback interface in every namespace.
const loopbackIndex = 1

// setLoopback brings up the loopback interface of the thread's namespace and adds addresses to it, through
// rtnetlink(7).
func setLoopback(addrs []netip.Addr) error {
	fd, err := routeSocket()
	if err != nil {
		return err
	}
	e := binary.NativeEndian
	up := make([]byte, unix.SizeofIfInfomsg)
	e.PutUint32(up[4:], loopbackIndex)
	e.PutUint32(up[8:], unix.IFF_UP)
	e.PutUint32(up[12:], unix.IFF_UP)
	err = request(fd, unix.RTM_NEWLINK, 0, up)
	for _, a := range addrs {
		if err != nil {
			break
		}
		m := []byte{unix.AF_INET6, 128, unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}
		m = e.AppendUint32(m, loopbackIndex)
		m = e.AppendUint16(m, unix.SizeofRtAttr+16)
		m = e.AppendUint16(m, unix.IFA_LOCAL)
		ip := a.As16()
		err = request(fd, unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, append(m, ip[:]...))
	}
	return errors.Join(err, unix.Close(fd))
}

// routeGroups lets the loopback interface of the thread's namespace carry IPv6 multicast. The system adds a route to
// ff00::/8 for every other interface, but not for loopback. The route must have type "local". Packets that use a route
// of type "multicast" are sent but never arrive.
func routeGroups() error {
	fd, err := routeSocket()
	if err != nil {
		return err
	}
	e := binary.NativeEndian
	m := []byte{
		unix.AF_INET6, 8, 0, 0,
		unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_LOCAL, 0, 0, 0, 0,
	}
	m = e.AppendUint16(m, unix.SizeofRtAttr+16)
	m = e.AppendUint16(m, unix.RTA_DST)
	group := [16]byte{0xff}
	m = append(m, group[:]...)
	m = e.AppendUint16(m, unix.SizeofRtAttr+4)
	m = e.AppendUint16(m, unix.RTA_OIF)
	m = e.AppendUint32(m, loopbackIndex)
	return errors.Join(request(fd, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, m), unix.Close(fd))
}

// routeSocket opens an rtnetlink(7) socket in the thread's namespace.
func routeSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return 0, fmt.Errorf("netlink: %w", err)
	}
	return fd, nil
}

// request sends a request and waits for its acknowledgement.
func request(fd int, kind, flags uint16, body []byte) error {
	e := binary.NativeEndian
	m := e.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = e.AppendUint16(m, kind)
	m = e.AppendUint16(m, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	m = append(m, make([]byte, 8)...) // sequence, sender
	if err := unix.Sendto(fd, append(m, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	b := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, b, 0)
	switch {
	case err != nil:
		return fmt.Errorf("netlink: %w", err)
	case n < unix.SizeofNlMsghdr+4 || e.Uint16(b[4:]) != unix.NLMSG_ERROR:
		return fmt.Errorf("netlink: a reply of %d bytes that is not an acknowledgement", n)
	}
	if code := int32(e.Uint32(b[unix.SizeofNlMsghdr:])); code != 0 {
		return fmt.Errorf("netlink request %d: %w", kind, unix.Errno(-code))
	}
	return nil
}
