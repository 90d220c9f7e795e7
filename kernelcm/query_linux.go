package kernelcm

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
	"ciddk/mad"
)

// addresses are those of an ID.
type addresses struct {
	port           mads.Port // CA 0: on no device
	local, remote  netip.AddrPort
	localGID, peer ci.GID
	pkey           ci.PKey
}

// addresses returns the addresses of an ID and its GIDs.
func (x *kernelID) addresses() (a addresses, err error) {
	var r abi.QueryAddrResp
	if err := x.d.do(abi.CmdQuery, &abi.Query{ID: x.num, Option: abi.QueryAddr}, &r); err != nil {
		return a, err
	}
	a.port = mads.Port{CA: ci.GUID(binary.BigEndian.Uint64(r.NodeGUID[:])), Num: r.PortNum}
	a.pkey = ci.PKey(r.PKey)
	if a.local, err = parse(r.Src[:], r.SrcSize); err != nil {
		return a, err
	}
	if a.remote, err = parse(r.Dst[:], r.DstSize); err != nil || a.port.Num == 0 {
		return a, err
	}
	if err := x.d.do(abi.CmdQuery, &abi.Query{ID: x.num, Option: abi.QueryGID}, &r); err != nil {
		return a, err
	}
	const gid = 8 // offset in struct sockaddr_ib
	copy(a.localGID[:], r.Src[gid:])
	copy(a.peer[:], r.Dst[gid:])
	return a, nil
}

// parse decodes an address, which may be that of no family.
func parse(b []byte, size uint16) (netip.AddrPort, error) {
	if size == 0 || ne.Uint16(b) == 0 {
		return netip.AddrPort{}, nil
	}
	a, err := abi.ParseAddress(b, int(size))
	return a.AddrPort, err
}

// record returns the path of an ID whose route is resolved.
func (x *kernelID) record() (rec mad.PathRecord, ok bool, err error) {
	var r abi.QueryPathResp
	err = x.d.do(abi.CmdQuery, &abi.Query{ID: x.num, Option: abi.QueryPath}, &r)
	if err != nil || r.NumPaths == 0 {
		return rec, false, err
	}
	rec.Parse(r.Path.Record[:])
	return rec, true, nil
}

// bind binds an ID to an address. An invalid address stands for all of both families.
func (x *kernelID) bind(at netip.AddrPort, reuse bool) error {
	ip := at.Addr()
	q := abi.BindAddr{ID: x.num}
	if !ip.IsValid() {
		at = netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())
	} else if ip == netip.IPv6Unspecified() {
		if err := x.option(abi.OptionAFOnly); err != nil {
			return err
		}
	}
	if reuse {
		if err := x.option(abi.OptionReuseAddr); err != nil {
			return err
		}
	}
	q.AddrSize = uint16(abi.PutAddress(q.Addr[:], at, 0))
	return x.d.do(abi.CmdBind, &q, nil)
}

// option sets an option of an ID to 1.
func (x *kernelID) option(name uint32) error {
	return x.d.do(abi.CmdSetOption, &abi.SetOption{Value: addressOf(one), ID: x.num, Level: abi.LevelID, Name: name,
		Len: uint32(len(one))}, nil)
}

// one is the value of an option. It is never moved, since it is not on a stack.
var one = ne.AppendUint32(nil, 1)

// The kernel looks at an address that is not resolved at once when it hears of the answer, which it may miss, and after
// a timeout. A context that ends before ends the step.
const (
	timeout = 2000 // milliseconds
	tries   = 15
)

// again reports whether to resolve an address once more. left counts the tries.
func again(e *abi.EventResp, left *int) bool {
	*left--
	return e.Event == abi.EventAddrError && syscall.Errno(-e.Status) == syscall.ETIMEDOUT && *left > 0
}

// resolve starts to resolve an address. The source may be invalid.
func (x *kernelID) resolve(from netip.Addr, to netip.AddrPort) error {
	q := abi.ResolveAddr{ID: x.num, TimeoutMS: timeout}
	if from.IsValid() && !from.IsUnspecified() {
		q.SrcSize = uint16(abi.PutAddress(q.Src[:], netip.AddrPortFrom(from, 0), 0))
	}
	q.DstSize = uint16(abi.PutAddress(q.Dst[:], to, 0))
	return x.d.do(abi.CmdResolveAddr, &q, nil)
}

func (x *kernelID) resolveRoute() error {
	return x.d.do(abi.CmdResolveRoute, &abi.ResolveRoute{ID: x.num, TimeoutMS: timeout}, nil)
}

// qpAttr returns the attributes that move a QP to a state.
func (x *kernelID) qpAttr(to ci.QPState) (set ci.QPField, a ci.QPAttr, err error) {
	q := abi.InitQPAttr{ID: x.num}
	for number, state := range abi.QPStates {
		if state == to {
			q.QPState = number
		}
	}
	var r abi.QPAttr
	if err := x.d.do(abi.CmdInitQPAttr, &q, &r); err != nil {
		return 0, a, err
	}
	for field, mask := range abi.QPMasks {
		if r.Mask&mask != 0 {
			set |= field
		}
	}
	a = ci.QPAttr{State: to, MTU: ci.MTU(r.PathMTU), QKey: ci.QKey(r.QKey), RQPSN: ci.PSN(r.RQPSN),
		SQPSN: ci.PSN(r.SQPSN), DestNum: ci.QPN(r.DestQPNum), InitDepth: r.MaxRdAtomic, RespRes: r.MaxDestRdAtomic,
		MinRNRTimer: r.MinRNRTimer, Port: r.PortNum, RetryCount: r.RetryCnt, RNRRetry: r.RNRRetry,
		Primary: ci.Path{AV: r.AH.AV(), PKeyIndex: r.PKeyIndex, AckTimeout: ci.TimeExp(r.Timeout)}}
	return set &^ ci.QPFieldAccess, a, nil
}
