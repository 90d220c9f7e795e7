package ucm

import (
	"encoding/binary"
	"math"
	"syscall"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	abi "ciddk/internal/ucmabi"
	"ciddk/mad"
)

// noIndex is the index of a device that has none, so that the library finds it by its GUID.
const noIndex = math.MaxUint32

// Values of path records: one path, in both directions; a selector for exactly the value; a maximum rate of 2.5 Gb/s.
const (
	exactly    = 2
	pathFlags  = 1<<0 | 1<<1 | 1<<3 | 1<<5 // general, primary, both directions: outbound, and inbound reversed
	rateDigits = 1<<6 - 1
	usualRate  = 2
)

func (f *File) queryRoute(_ *call, q *abi.Query, r *abi.QueryRouteResp) error {
	return f.with(q.ID, func(x *id) error {
		family := x.familyOf()
		abi.PutAddress(r.Src[:], x.cm.LocalAddr().AddrPort, family)
		abi.PutAddress(r.Dst[:], x.cm.RemoteAddr().AddrPort, family)
		src := x.cm.Source()
		r.IBDevIndex = f.front.number(src.Port.CA)
		if src.Port.Num == 0 {
			return nil
		}
		be.PutUint64(r.NodeGUID[:], uint64(src.Port.CA))
		r.PortNum = src.Port.Num
		rec := x.path(&src)
		if x.hasPath() {
			r.NumPaths = 1
		}
		r.Route[0] = abi.PathRec{DGID: rec.DGID, SGID: rec.SGID, HopLimit: rec.HopLimit, TrafficClass: rec.TrafficClass,
			SL: rec.SL, MTU: uint32(rec.MTU), MTUSelector: exactly, RateSelector: exactly, Rate: uint8(rec.Rate),
			LifeSelector: exactly, LifeTime: uint8(rec.LifeTime), Reversible: 1, NumPaths: rec.NumbPath}
		p := &r.Route[0]
		be.PutUint16(p.DLID[:], rec.DLID)
		be.PutUint16(p.SLID[:], rec.SLID)
		be.PutUint16(p.PKey[:], rec.PKey)
		be.PutUint32(p.FlowLabel[:], rec.FlowLabel)
		return nil
	})
}

// number returns the number of an adapter's device, noIndex if it has none.
func (u *FrontEnd) number(guid ci.GUID) uint32 {
	if u.cfg.Number != nil {
		if n, ok := u.cfg.Number(guid); ok {
			return n
		}
	}
	return noIndex
}

// familyOf returns the family of the ID's addresses.
func (x *id) familyOf() uint16 {
	x.front.mu.Lock()
	defer x.front.mu.Unlock()
	return x.family
}

func (x *id) hasPath() bool { return x.cm.Path() != (cm.Path{}) }

// path returns the path as a record of the subnet administrator. Before there is a path, it contains the addresses.
func (x *id) path(src *resolve.Source) mad.PathRecord {
	p := x.cm.Path()
	rec := mad.PathRecord{DGID: p.AV.GRH.DGID, SGID: src.GID, DLID: uint16(p.AV.DLID), FlowLabel: p.AV.GRH.FlowLabel,
		HopLimit: p.AV.GRH.HopLimit, TrafficClass: p.AV.GRH.TrafficClass, Reversible: true, NumbPath: 1,
		PKey: uint16(p.PKey), SL: uint8(p.AV.SL), MTUSelector: exactly, MTU: mad.MTU(p.MTU), RateSelector: exactly,
		Rate: mad.Rate(p.AV.StaticRate) & rateDigits, LifeTimeSelector: exactly, LifeTime: p.LifeTime}
	if rec.PKey == 0 {
		rec.PKey = 0xffff
	}
	if rec.Rate == 0 {
		rec.Rate = usualRate
	}
	a, err := x.cm.Manager().AL().Adapter(src.Port.CA)
	if err != nil {
		return rec // the adapter was removed
	}
	if attr := a.Attr(); int(src.Port.Num) <= len(attr.Ports) {
		port := &attr.Ports[src.Port.Num-1]
		if rec.MTU == 0 {
			rec.MTU = mad.MTU(port.MTU)
		}
		if src.Link == ci.LinkInfiniBand {
			rec.SLID = uint16(port.LID)
		}
	}
	if to := x.cm.RemoteAddr().Addr(); !x.hasPath() && to.IsValid() && src.Link != ci.LinkInfiniBand {
		rec.DGID = to.As16()
	}
	return rec
}

// query returns addresses, paths or GIDs, of which each has a reply of its own.
func (f *File) query(c *call, q *abi.Query, _ *abi.QueryPathResp) error {
	return f.with(q.ID, func(x *id) error {
		switch q.Option {
		case abi.QueryAddr, abi.QueryGID:
			if c.room < abi.RoomQueryAddr {
				return syscall.ENOSPC
			}
			r := x.addresses(q.Option == abi.QueryGID)
			c.resp, _ = binary.Append(nil, ne, r) // the structure has a fixed size
		case abi.QueryPath:
			var r abi.QueryPathResp
			src := x.cm.Source()
			if x.hasPath() {
				rec := x.path(&src)
				rec.Put(r.Path.Record[:])
				r.NumPaths, r.Path.Flags = 1, pathFlags
			}
			c.resp, _ = binary.Append(nil, ne, r)
			if room := min(c.room, len(c.resp)); r.NumPaths == 0 || room < len(c.resp) {
				c.resp = c.resp[:abi.RoomQueryPath] // a path is not cut
				ne.PutUint32(c.resp, 0)
			}
		default:
			return syscall.ENOSYS
		}
		return nil
	})
}

// addresses returns the addresses of an ID, or its GIDs.
func (x *id) addresses(isGID bool) *abi.QueryAddrResp {
	src := x.cm.Source()
	r := &abi.QueryAddrResp{PortNum: src.Port.Num, IBDevIndex: x.front.number(src.Port.CA)}
	be.PutUint64(r.NodeGUID[:], uint64(src.Port.CA))
	rec := mad.PathRecord{PKey: 0xffff}
	if src.Port.Num != 0 {
		rec = x.path(&src)
	}
	r.PKey = rec.PKey
	local, remote := x.cm.LocalAddr(), x.cm.RemoteAddr()
	if isGID {
		space := map[uint16]mad.PortSpace{abi.SpaceTCP: cmid.TCP, abi.SpaceUDP: cmid.UDP, abi.SpaceIB: cmid.IB}[x.space]
		r.SrcSize = abi.PutGID(r.Src[:], src.GID, ci.PKey(rec.PKey), space.ServiceID(local.Port()))
		r.DstSize = abi.PutGID(r.Dst[:], rec.DGID, ci.PKey(rec.PKey), space.ServiceID(remote.Port()))
		return r
	}
	family := x.familyOf()
	r.SrcSize = uint16(abi.PutAddress(r.Src[:], local.AddrPort, family))
	r.DstSize = uint16(abi.PutAddress(r.Dst[:], remote.AddrPort, family))
	return r
}
