package ucm

import (
	"errors"
	"net/netip"
	"syscall"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
	"ciddk/mad"
)

func (f *File) bindIP(_ *call, q *abi.BindIP, _ *abi.None) error {
	a, err := abi.ParseIP(&q.Addr)
	if err != nil {
		return err
	}
	return f.bind(q.ID, a)
}

func (f *File) bindAddr(_ *call, q *abi.BindAddr, _ *abi.None) error {
	if q.Reserved != 0 {
		return syscall.EINVAL
	}
	a, err := abi.ParseAddress(q.Addr[:], int(q.AddrSize))
	if err != nil {
		return err
	}
	return f.bind(q.ID, a)
}

func (f *File) bind(number uint32, a abi.Address) error {
	return f.with(number, func(x *id) error { return x.bind(a) })
}

func (x *id) bind(a abi.Address) error {
	if p := a.Port(); p != 0 && p < firstFreePort && !mayBindService(x.session().Peer()) {
		return syscall.EACCES
	}
	at := bindable(x.cm.Manager().AL(), a.AddrPort)
	if at.Addr() == netip.IPv4Unspecified() && x.isForAll { // of both families
		at = netip.AddrPortFrom(netip.Addr{}, at.Port())
	}
	if err := x.takePort(func() error { return x.cm.Bind(at) }); err != nil {
		return err
	}
	x.setFamily(a.Family)
	return nil
}

// takePort executes a command that takes a port, which a program that has ended may still have. The errno of a port
// that is taken is that of Linux, also where one address is any address (cma_check_port).
func (x *id) takePort(take func() error) error {
	err := x.session().AfterEndings(take)
	if errors.Is(err, cmid.ErrAnyAddr) {
		return errors.Join(syscall.EADDRNOTAVAIL, err)
	}
	return err
}

// setAFOnly sets whether any address is any of its family. Without the option, 0.0.0.0 is one of IPv4, and :: one of
// both families (rdma_set_afonly, cma_match_private_data).
func (x *id) setAFOnly(only bool) error {
	if x.cm.IsBound() && x.familyOf() == abi.FamilyIPv4 {
		return x.cm.SetIPv6Only(false) // only its checks of the state
	}
	x.isForAll = !only
	return x.takePort(func() error { return x.cm.SetIPv6Only(only) })
}

// setFamily records the family of the first address that the program has used, and returns it.
func (x *id) setFamily(family uint16) uint16 {
	x.front.mu.Lock()
	defer x.front.mu.Unlock()
	if x.family == 0 {
		x.family = family
	}
	return x.family
}

func (f *File) resolveIP(_ *call, q *abi.ResolveIP, _ *abi.None) error {
	to, err := abi.ParseIP(&q.Dst)
	if err != nil {
		return err
	}
	var from abi.Address
	if ne.Uint16(q.Src[:]) != 0 {
		if from, err = abi.ParseIP(&q.Src); err != nil {
			return err
		}
	}
	return f.resolve(q.ID, from, to, q.TimeoutMS)
}

func (f *File) resolveAddr(_ *call, q *abi.ResolveAddr, _ *abi.None) error {
	if q.Reserved != 0 {
		return syscall.EINVAL
	}
	to, err := abi.ParseAddress(q.Dst[:], int(q.DstSize))
	if err != nil {
		return err
	}
	var from abi.Address
	if q.SrcSize > 0 && ne.Uint16(q.Src[:]) != 0 {
		if from, err = abi.ParseAddress(q.Src[:], int(q.SrcSize)); err != nil {
			return err
		}
	}
	return f.resolve(q.ID, from, to, q.TimeoutMS)
}

// resolve starts to resolve an address. An ID that is not bound is bound to the source address, if there is one.
func (f *File) resolve(number uint32, from, to abi.Address, timeoutMS uint32) error {
	if !to.Addr().IsValid() {
		return syscall.EINVAL
	}
	return f.with(number, func(x *id) error {
		if x.cm.RemoteAddr().Addr().IsValid() {
			return syscall.EINVAL // the address is resolved
		}
		if from.Family != 0 && !x.cm.IsBound() {
			if err := x.bind(from); err != nil {
				return err
			}
		}
		if x.setFamily(to.Family) != to.Family {
			return syscall.EINVAL // as Linux: one ID has one family
		}
		remote := reachable(x.cm.Manager().AL(), x.cm.LocalAddr().Addr(), to.AddrPort)
		return x.cm.StartResolveAddr(remote, milliseconds(timeoutMS))
	})
}

// milliseconds returns a timeout. A timeout of 0 ends at once, which 1 ms stands for.
func milliseconds(n uint32) time.Duration { return time.Duration(max(1, n)) * time.Millisecond }

func (f *File) resolveRoute(_ *call, q *abi.ResolveRoute, _ *abi.None) error {
	return f.placed(q.ID, func(x *id) error {
		if x.hasPath() {
			return syscall.EINVAL
		}
		return x.cm.StartResolveRoute(milliseconds(q.TimeoutMS))
	})
}

// maxBacklog is the largest backlog, which is also that of a backlog of 0 (/proc/sys/net/rdma_ucm/max_backlog).
const maxBacklog = 1024

func (f *File) listen(_ *call, q *abi.Listen, _ *abi.None) error {
	backlog := int(q.Backlog)
	if q.Backlog == 0 || q.Backlog > maxBacklog {
		backlog = maxBacklog
	}
	return f.with(q.ID, func(x *id) error {
		if !x.cm.IsBound() { // as Linux: to any address of IPv4
			if err := x.bind(abi.Address{Family: abi.FamilyIPv4, AddrPort: netip.AddrPortFrom(netip.IPv4Unspecified(),
				0)}); err != nil {
				return err
			}
		}
		err := x.takePort(func() error {
			_, err := x.cm.Listen(backlog)
			return err
		})
		if err == nil {
			x.front.mu.Lock()
			x.listens = true
			x.front.mu.Unlock()
		}
		return err
	})
}

// optionSizes are the sizes of the options of an ID.
var optionSizes = map[uint32]uint32{abi.OptionTOS: 1, abi.OptionReuseAddr: 4, abi.OptionAFOnly: 4,
	abi.OptionAckTimeout: 1}

// setOption sets an option, whose value is in the memory of the program.
func (f *File) setOption(_ *call, q *abi.SetOption, _ *abi.None) error {
	if _, err := f.find(q.ID); err != nil {
		return err
	}
	if q.Level == abi.LevelIB && q.Name == abi.OptionIBPath {
		return f.setPath(q)
	}
	size, ok := optionSizes[q.Name]
	switch {
	case q.Level != abi.LevelID || !ok:
		return syscall.ENOSYS
	case q.Len != size:
		return syscall.EINVAL
	}
	b := make([]byte, 4)
	if err := f.session.ReadMemory(b[:size], q.Value); err != nil {
		return syscall.EFAULT
	}
	value := ne.Uint32(b)
	return f.with(q.ID, func(x *id) error {
		switch q.Name {
		case abi.OptionTOS:
			_ = x.cm.SetTrafficClass(b[0]) // an error means that the route is resolved; Linux ignores that, too
			return nil
		case abi.OptionReuseAddr:
			return x.cm.SetReuseAddr(value != 0)
		case abi.OptionAFOnly:
			return x.setAFOnly(value != 0)
		}
		return x.setAckTimeout(b[0])
	})
}

// maxPaths is the number of paths that the option of a path can have. Linux limits the memory of an option.
const maxPaths = 64

// setPath sets the path of an ID to the first of those in the program's memory that is for both directions and all
// packets (ucma_set_ib_path). The program receives an event as if the path had been resolved.
func (f *File) setPath(q *abi.SetOption) error {
	const record = 8 // offset of the record in pathData
	one := size[abi.PathData]()
	if q.Len > maxPaths*uint32(one) {
		return syscall.EINVAL
	}
	b := make([]byte, q.Len)
	if err := f.session.ReadMemory(b, q.Value); err != nil {
		return syscall.EFAULT
	}
	if len(b)%one != 0 {
		return syscall.EINVAL
	}
	for ; len(b) > 0; b = b[one:] {
		if ne.Uint32(b) == pathFlags {
			var rec mad.PathRecord
			rec.Parse(b[record:])
			return f.placed(q.ID, func(x *id) error { return x.cm.StartSetRecord(&rec) })
		}
	}
	return syscall.EINVAL
}

// setAckTimeout sets the time that the QP waits for an acknowledgement, in any state, as Linux does. A path that is
// resolved later has half of it as its life time. Error: EINVAL (not a reliable connection).
func (x *id) setAckTimeout(t uint8) error {
	if x.typ != ci.RC {
		return syscall.EINVAL
	}
	ack := mad.TimeExp(t) & mad.MaxTimeExp
	x.front.mu.Lock()
	x.ackTimeout, x.hasAckTimeout = ack, true
	x.front.mu.Unlock()
	if ack > 1 {
		_ = x.cm.SetLifeTime(ack - 1) // an error means that the route is resolved
	}
	return nil
}

func (f *File) notify(_ *call, q *abi.Notify, _ *abi.None) error {
	return f.placed(q.ID, func(x *id) error { // ib_cm_notify
		c := x.cm.Conn()
		isConnected := c != nil && c.State() == cm.StateEstablished
		switch {
		case q.Event == abi.PathMigrated && isConnected:
			return nil // the program's QP has migrated; there is no alternate path here that the CM would follow
		case q.Event != abi.CommEstablished:
			return syscall.EINVAL
		case isConnected:
			return syscall.EISCONN
		}
		return x.cm.Notify()
	})
}
