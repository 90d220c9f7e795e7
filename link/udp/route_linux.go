package udp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"ciddk/link/internal/rocev2"
)

// osRoute is the destination as sendmsg takes it.
type osRoute struct {
	sa    [unix.SizeofSockaddrInet6]byte
	saLen uint32
	ctl   [2*controlRoom + infoRoom]byte // traffic class, hop limit, source address that differ from the socket's
	nctl  int
}

// compileRoute returns rocev2.Port.CompileRoute.
func compileRoute(p *rocev2.Port) func(*rocev2.Route, bool) any {
	return func(r *rocev2.Route, several bool) any {
		o := compileOS(r, p.Index)
		if several {
			o.setSource(p.Addr, p.Index)
		}
		return &o
	}
}

func compileOS(r *rocev2.Route, ifindex int) (o osRoute) {
	ne := binary.NativeEndian
	a := r.Dst.Addr()
	binary.BigEndian.PutUint16(o.sa[2:], r.Dst.Port())
	level, class, hops := unix.IPPROTO_IP, unix.IP_TOS, unix.IP_TTL
	if a.Is4() {
		o.saLen = unix.SizeofSockaddrInet4
		ne.PutUint16(o.sa[0:], unix.AF_INET)
		v4 := a.As4()
		copy(o.sa[4:], v4[:])
	} else {
		level, class, hops = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
		o.saLen = unix.SizeofSockaddrInet6
		ne.PutUint16(o.sa[0:], unix.AF_INET6)
		binary.BigEndian.PutUint32(o.sa[4:], r.Key.Label)
		v6 := a.As16()
		copy(o.sa[8:], v6[:])
		if a.Zone() != "" {
			ne.PutUint32(o.sa[24:], uint32(ifindex))
		}
	}
	if r.Key.Class != 0 {
		o.nctl += putControl32(o.ctl[o.nctl:], level, class, uint32(r.Key.Class))
	}
	if r.Key.HopLimit != rocev2.DefaultHops || a.IsMulticast() { // for groups, the system's default is 1
		o.nctl += putControl32(o.ctl[o.nctl:], level, hops, uint32(r.Key.HopLimit))
	}
	return o
}
