package uverbs

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
)

// getContext opens the adapter, with the descriptor of asynchronous events.
func (f *File) getContext(c *call, _ *getContext, r *getContextResp) error {
	events, vectors, err := f.newContext(c)
	if err != nil {
		return err
	}
	c.reply.Files = append(c.reply.Files, devices.Descriptor{File: events, Close: true, Addr: c.response})
	r.NumCompVectors = vectors
	return nil
}

// newContext opens the adapter. It returns the descriptor of asynchronous events and the number of completion vectors.
// Error: EINVAL: the file has a context.
func (f *File) newContext(c *call) (events *os.File, vectors uint32, err error) {
	f.mu.Lock()
	again := f.opening
	f.opening = true
	f.mu.Unlock()
	if again {
		return nil, 0, syscall.EINVAL
	}
	adapter, err := f.front.cfg.AL.Adapter(f.dev.GUID)
	if err == nil {
		events, err = f.open(c)
	}
	if err != nil {
		f.mu.Lock()
		f.opening = false
		f.mu.Unlock()
		return nil, 0, err
	}
	return events, uint32(max(1, adapter.Attr().Vectors)), nil
}

func (f *File) open(c *call) (*os.File, error) {
	async, events, err := f.session.NewEventQueue(asyncEvent)
	if err != nil {
		return nil, err
	}
	user := f.private(c)
	result, err := f.session.Do(&kproxy.Call{Command: schema.CmdOpenCA,
		Body: &schema.OpenCA{GUID: f.dev.GUID, Async: async, User: user}})
	if err != nil || len(result.Files) < 2 {
		events.Close()
		_, _ = do[schema.DestroyReply](f, schema.CmdDestroy, &schema.Object{Handle: async})
		if err == nil { // the driver does not share queues with the stock library
			err = syscall.EOPNOTSUPP
		}
		return nil, err
	}
	created := result.Body.(*schema.Created)
	c.answer(&created.User)
	c.reply.Memory = result.Files[0]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ca, f.async, f.bell = created.Handle, async, result.Files[1]
	return events, nil
}

func (f *File) attr() (*schema.CAAttr, error) {
	return do[schema.CAAttr](f, schema.CmdQueryCA, &schema.CA{CA: f.ca})
}

func (f *File) queryDevice(_ *call, _ *queryDevice, r *queryDeviceResp) error {
	a, err := f.attr()
	if err != nil {
		return err
	}
	*r = deviceAttr(a)
	return nil
}

func (f *File) exQueryDevice(c *call, q *exQueryDevice, r *exQueryDeviceResp) error {
	if q.CompMask != 0 || q.Reserved != 0 {
		return syscall.EINVAL
	}
	a, err := f.attr()
	if err != nil {
		return err
	}
	r.Base = deviceAttr(a)
	r.ResponseLength = uint32(min(size[exQueryDeviceResp](), c.room))
	r.DeviceCapFlagsEx = uint64(r.Base.DeviceCapFlags)
	for c, flag := range deviceCapsEx {
		if a.Caps.Has(c) {
			r.DeviceCapFlagsEx |= flag
		}
	}
	return nil
}

// deviceCaps are the flags of capabilities (ib_uverbs_device_cap_flags) that programs can use. They have no call that
// shuts down a port, and the libraries of the providers none that moderates a CQ.
var deviceCaps = map[ci.Caps]uint32{
	ci.CapModifyWRDepth: 1 << 0, ci.CapPKeyCounter: 1 << 1, ci.CapQKeyCounter: 1 << 2, ci.CapAPM: 1 << 4,
	ci.CapChangePrimaryPort: 1 << 5, ci.CapAVPortCheck: 1 << 6, ci.CapCurrentQPState: 1 << 7,
	ci.CapPortActiveEvent: 1 << 10, ci.CapSystemGUID: 1 << 11,
	ci.CapModifySRQDepth: 1 << 13, ci.CapMW1: 1 << 17, ci.CapFastReg: 1 << 21, ci.CapMW2: 1 << 24,
}

// deviceCapsEx are the flags that only ibv_query_device_ex returns.
var deviceCapsEx = map[ci.Caps]uint64{ci.CapFlush: 1 << 38, ci.CapFlushPersistent: 1 << 39, ci.CapAtomicWrite: 1 << 40}

// rnrNAK is the flag of an adapter that sends RNR NAKs, as the responder of every reliable connection does.
const rnrNAK = 1 << 12

func deviceAttr(a *schema.CAAttr) queryDeviceResp {
	r := queryDeviceResp{FwVer: a.Firmware, MaxMRSize: a.MaxMRSize, VendorID: a.VendorID,
		VendorPartID: uint32(a.DeviceID), HwVer: uint32(a.Revision), MaxQP: number(a.MaxQPs), MaxQPWR: number(a.MaxWRs),
		MaxSGE: number(a.MaxSGEs), MaxSGERd: number(a.MaxReadSGEs), MaxCQ: number(a.MaxCQs),
		// one is that of CQs, see hiddenPD
		MaxCQE: number(a.MaxCQEs), MaxMR: number(a.MaxMRs), MaxPD: max(number(a.MaxPDs), 1) - 1,

		MaxQPRdAtom: number(a.MaxRespResPerQP), MaxResRdAtom: number(a.MaxRespRes),
		MaxQPInitRdAtom: number(a.MaxInitDepth), AtomicCap: uint32(a.Atomicity), MaxMW: number(a.MaxMWs),
		MaxMcastGrp: number(a.MaxMcastGroups), MaxMcastQPAttach: number(a.MaxQPsPerMcastGroup),
		MaxTotalMcastAttach: number(a.MaxMcastQPs), MaxAH: number(a.MaxAVs), MaxSRQ: number(a.MaxSRQs),
		MaxSRQWR: number(a.MaxSRQWRs), MaxSRQSGE: number(a.MaxSRQSGEs), MaxPKeys: uint16(number(a.MaxPartitions)),
		LocalCAAckDelay: uint8(a.AckDelay), PhysPortCnt: uint8(min(len(a.Ports), math.MaxUint8)),
		DeviceCapFlags: rnrNAK}
	binary.BigEndian.PutUint64(r.NodeGUID[:], uint64(a.GUID))
	binary.BigEndian.PutUint64(r.SysImageGUID[:], uint64(systemGUID(a.GUID, a.SystemGUID)))
	for _, n := range a.PageSizes {
		r.PageSizeCap |= n
	}
	for c, flag := range deviceCaps {
		if a.Caps.Has(c) {
			r.DeviceCapFlags |= flag
		}
	}
	return r
}

// systemGUID returns the GUID of the system, that of the node if the adapter has none.
func systemGUID(node, system ci.GUID) ci.GUID {
	if system == 0 {
		return node
	}
	return system
}

func (f *File) queryPort(_ *call, q *queryPort, r *queryPortResp) error {
	a, err := f.attr()
	if err != nil {
		return err
	}
	if q.PortNum == 0 || int(q.PortNum) > len(a.Ports) {
		return syscall.EINVAL
	}
	p := &a.Ports[q.PortNum-1]
	*r = queryPortResp{PortCapFlags: capability(p.Link, p.Capability), MaxMsgSz: number(p.MaxMsgSize),
		BadPKeyCntr: uint32(p.PKeyErrors), QKeyViolCntr: uint32(p.QKeyErrors), GIDTblLen: uint32(numGIDs(p.GIDs)),
		PKeyTblLen: uint16(min(len(p.PKeys), math.MaxUint16)), LID: uint16(p.LID), SMLID: uint16(p.SMLID),
		State: uint8(p.State), MaxMTU: uint8(p.MaxMTU), ActiveMTU: uint8(p.MTU), LMC: p.LMC, MaxVLNum: p.MaxVLs,
		SMSL: p.SMSL, SubnetTimeout: uint8(p.SubnetTimeout), InitTypeReply: uint8(p.InitTypeReply),
		ActiveWidth: p.WidthActive, ActiveSpeed: activeSpeed(p), PhysState: p.PhysState,
		LinkLayer: linkLayer(p.Link)}
	if p.Link == ci.LinkEthernet {
		r.Flags = grhRequired
	}
	return nil
}

// grhRequired is the flag of ports whose addresses need a GID (enum ib_uverbs_query_port_flags).
const grhRequired = 1

// capability returns the capabilities of a port. On Ethernet, they include the daemon's connection manager. On
// InfiniBand, they are those that the subnet manager sees.
func capability(link ci.Link, c ci.PortCap) uint32 {
	if link == ci.LinkEthernet {
		c |= ci.PortCapCM
	}
	return uint32(c)
}

// numGIDs returns the number of entries up to the last one in use, so that each has files in sysfs.
func numGIDs(table []schema.GIDEntry) int {
	n := len(table)
	for n > 1 && table[n-1].GID == (ci.GID{}) {
		n--
	}
	return n
}

// activeSpeed returns the speed of a lane: 16 and 32 are FDR and EDR.
func activeSpeed(p *schema.PortAttr) uint8 {
	switch p.SpeedExt {
	case 1:
		return 16
	case 2:
		return 32
	}
	return p.SpeedActive
}

// linkLayer returns the number of a link layer: 1 InfiniBand, 2 Ethernet.
func linkLayer(l ci.Link) uint8 {
	if l == ci.LinkInfiniBand {
		return 1
	}
	return 2
}

// createCompChannel creates an event queue for completions.
func (f *File) createCompChannel(c *call, _ *createCompChannel, _ *createCompChannelResp) error {
	f.reapChannels()
	queue, events, err := f.session.NewEventQueue(completionEvent)
	if err != nil {
		return err
	}
	c.reply.Files = append(c.reply.Files, devices.Descriptor{File: events, Close: true, Addr: c.response})
	info, err := events.Stat()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.channels = append(f.channels, channel{queue, info})
	return nil
}

// reapChannels removes the channels that the program has closed.
func (f *File) reapChannels() {
	f.channelMu.Lock()
	defer f.channelMu.Unlock()
	f.mu.Lock()
	list := slices.Clone(f.channels)
	f.mu.Unlock()
	list = slices.DeleteFunc(list, func(x channel) bool { return !f.session.ReapEventQueue(x.queue) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.channels = slices.DeleteFunc(f.channels, func(x channel) bool { return slices.Contains(list, x) })
}

// channelOf returns the event queue of a descriptor of the program, or 0 for a negative one, which is none. wait
// reports that the carrier must send it first. Error: EBADF: it is not the descriptor of a channel of this file.
func (f *File) channelOf(c *call, fd int32) (queue schema.Handle, wait bool, err error) {
	if fd < 0 {
		return 0, false, nil
	}
	if c.request.File == nil || c.request.Number != fd {
		c.reply.NeedFile, c.reply.Number = true, fd
		return 0, true, nil
	}
	info, err := c.request.File.Stat()
	if err != nil {
		return 0, false, syscall.EBADF
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.channels {
		if os.SameFile(x.info, info) {
			return x.queue, false, nil
		}
	}
	return 0, false, syscall.EBADF
}
