package uverbs

import (
	"encoding/binary"
	"math"
	"net"
	"slices"
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
)

// kindsByType are the kinds of objects of which a program can list the handles.
var kindsByType = map[uint64]kind{typePD: kindPD, typeCQ: kindCQ, typeQP: kindQP, typeSRQ: kindSRQ, typeAH: kindAH,
	typeMR: kindMR, typeMW: kindMW}

// maxType is the last object type, UVERBS_OBJECT_ASYNC_EVENT.
const maxType = typeAsyncEvent

// infoHandles lists the handles of all objects of a type, the latest first.
func (f *File) infoHandles(c *ioctlCall) error {
	list := c.attrs[attrInfoList]
	if list == nil || list.size%4 != 0 {
		return syscall.EINVAL
	}
	typ, err := c.constant(attrInfoType, maxType)
	if err != nil {
		return err
	}
	var handles []uint32
	f.mu.Lock()
	for h, o := range f.objects {
		if o.kind == kindsByType[typ] {
			handles = append(handles, h)
		}
	}
	f.mu.Unlock()
	slices.Sort(handles)
	slices.Reverse(handles)
	handles = handles[:min(len(handles), list.size/4)]
	var b []byte
	for _, h := range handles {
		b = ne.AppendUint32(b, h)
	}
	c.store(list, b)
	return c.output(attrInfoTotal, ne.AppendUint32(nil, uint32(len(handles))))
}

func (f *File) ioctlQueryPort(c *ioctlCall) error {
	port, err := c.constant(attrPortNum, math.MaxUint8)
	if err != nil {
		return err
	}
	var r queryPortResp
	if err := f.queryPort(&c.call, &queryPort{PortNum: uint8(port)}, &r); err != nil {
		return err
	}
	b, _ := binary.Append(nil, ne, &r) // the structure has a fixed size
	return c.outputStruct(attrPortResp, append(b, make([]byte, sizePortResp-len(b))...))
}

// supportOptionalAccess reports that optional rights of regions are ignored where the adapter does not have them.
const supportOptionalAccess = 1

// ioctlGetContext is getContext. The descriptor of asynchronous events is requested by another call.
func (f *File) ioctlGetContext(c *ioctlCall) error {
	events, vectors, err := f.newContext(&c.call)
	if err != nil {
		return err
	}
	f.mu.Lock()
	isClosed := f.isClosed
	if !isClosed {
		f.events = events
	}
	f.mu.Unlock()
	if isClosed {
		events.Close()
		return syscall.EIO
	}
	for id, b := range map[uint16][]byte{attrContextVectors: ne.AppendUint32(nil, vectors),
		attrContextSupport: ne.AppendUint64(nil, supportOptionalAccess)} {
		if a := c.attrs[id]; a != nil {
			c.store(a, b)
		}
	}
	return nil
}

// allocAsyncEvent returns the descriptor of asynchronous events. A context has one. Error: EOPNOTSUPP: the program has
// it.
func (f *File) allocAsyncEvent(c *ioctlCall) error {
	f.mu.Lock()
	events := f.events
	f.events = nil
	f.mu.Unlock()
	if events == nil {
		return syscall.EOPNOTSUPP
	}
	at := c.attrs[attrHandle].at + offAttrData
	c.reply.Stores = append(c.reply.Stores, devices.Store{Addr: at, Data: make([]byte, 8)}) // a u32 is stored there
	if isBigEndian {
		at += 4
	}
	c.reply.Files = append(c.reply.Files, devices.Descriptor{File: events, Close: true, Addr: at})
	return nil
}

// isBigEndian reports the byte order of the machine.
var isBigEndian = ne.Uint16([]byte{0, 1}) == 1

// The types of GIDs (enum ib_uverbs_gid_type).
const (
	gidTypeIB = iota
	gidTypeRoCEv1
	gidTypeRoCEv2
)

// appendGIDEntry appends an entry of the GID table in the layout of the ABI (struct ib_uverbs_gid_entry).
func appendGIDEntry(b []byte, port, index int, p *ci.PortAttr) []byte {
	g := &p.GIDs[index]
	b = append(b, g.GID[:]...)
	typ := uint32(gidTypeRoCEv1)
	switch {
	case p.Link == ci.LinkInfiniBand:
		typ = gidTypeIB
	case g.Type == ci.GIDRoCEv2:
		typ = gidTypeRoCEv2
	}
	for _, n := range []uint32{uint32(index), uint32(port), typ, interfaceIndex(g.Interface)} {
		b = ne.AppendUint32(b, n)
	}
	return b
}

// interfaceIndex returns the number of a network interface, 0 if the machine has none of that name.
func interfaceIndex(name string) uint32 {
	if name == "" {
		return 0
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return uint32(i.Index)
}

// ports returns the present attributes of the adapter's ports.
func (f *File) ports() ([]ci.PortAttr, error) {
	a, err := f.front.cfg.AL.Adapter(f.dev.GUID)
	if err != nil {
		return nil, err
	}
	return a.Attr().Ports, nil
}

// queryGIDTable returns the entries of the GID tables of all ports that are in use. The program has room for more
// entries than there are, as in Linux.
func (f *File) queryGIDTable(c *ioctlCall) error {
	if _, err := c.flags(attrTableFlags, 0); err != nil {
		return err
	}
	size, err := c.constant(attrTableEntrySize, math.MaxUint32)
	if err != nil {
		return err
	}
	room := uint64(c.attrs[attrTableEntries].size)
	if size == 0 || room%size != 0 || room == 0 {
		return syscall.EINVAL
	}
	ports, err := f.ports()
	if err != nil {
		return err
	}
	var b []byte
	count := uint64(0)
	for i := range ports {
		for k := range ports[i].GIDs {
			if ports[i].GIDs[k].GID == (ci.GID{}) {
				continue
			}
			if count++; count > room/size {
				return syscall.EINVAL
			}
			entry := make([]byte, max(size, sizeGIDEntry))
			copy(entry, appendGIDEntry(nil, i+1, k, &ports[i]))
			b = append(b, entry[:size]...)
		}
	}
	c.store(c.attrs[attrTableEntries], b)
	return c.output(attrTableCount, ne.AppendUint64(nil, count))
}

// noData is ENODATA of Linux, which package syscall does not have on all systems.
const noData = syscall.Errno(61)

// queryGIDEntry returns an entry of a GID table. Error: ENODATA: the entry is empty.
func (f *File) queryGIDEntry(c *ioctlCall) error {
	if _, err := c.flags(attrEntryFlags, 0); err != nil {
		return err
	}
	port, err := c.constant(attrEntryPort, math.MaxUint32)
	if err != nil {
		return err
	}
	index, err := c.constant(attrEntryIndex, math.MaxUint32)
	if err != nil {
		return err
	}
	ports, err := f.ports()
	if err != nil {
		return err
	}
	if port == 0 || port > uint64(len(ports)) || index >= uint64(len(ports[port-1].GIDs)) {
		return syscall.EINVAL
	}
	p := &ports[port-1]
	if p.GIDs[index].GID == (ci.GID{}) {
		return noData
	}
	return c.outputStruct(attrEntryResp, appendGIDEntry(nil, int(port), int(index), p))
}
