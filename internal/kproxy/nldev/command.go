package nldev

import (
	"net"
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/uverbs"
)

// The type of a request is the client and the command.
const (
	clientShift = 10
	clientDev   = 5 // RDMA_NL_NLDEV
	commandMask = 1<<clientShift - 1
)

// The commands (enum rdma_nldev_command).
const (
	cmdGet        = 1
	cmdSet        = 2
	cmdNewLink    = 3
	cmdDelLink    = 4
	cmdPortGet    = 5
	cmdSysGet     = 6
	cmdSysSet     = 7
	cmdResGet     = 9
	cmdResQPGet   = 10
	cmdResCQGet   = 12
	cmdResMRGet   = 13
	cmdResPDGet   = 14
	cmdGetChardev = 15
	cmdStatSet    = 16
	cmdStatGet    = 17
	cmdStatDel    = 18
	cmdResCTXGet  = 22
	cmdResSRQGet  = 23
)

// The attributes (enum rdma_nldev_attr).
const (
	attrDevIndex     = 1
	attrDevName      = 2
	attrPortIndex    = 3
	attrCapFlags     = 4
	attrFirmware     = 5
	attrNodeGUID     = 6
	attrSystemGUID   = 7
	attrSubnetPrefix = 8
	attrLID          = 9
	attrSMLID        = 10
	attrLMC          = 11
	attrPortState    = 12
	attrPhysState    = 13
	attrNodeType     = 14
	attrNdevIndex    = 50
	attrNdevName     = 51
	attrNetnsMode    = 66
	attrProtocol     = 67
	attrChardevType  = 69
	attrChardevName  = 70
	attrChardevABI   = 71
	attrChardev      = 72
	attrDriver       = 73
	attrHWCounters   = 80
	attrHWCounter    = 81
	attrCounterName  = 82
	attrCounterValue = 83
	attrDim          = 84
	attrCopyOnFork   = 93
)

// nodeCA is the node type of a channel adapter.
const nodeCA = 1

// query returns the bodies of the replies to a request: one, or with isDump any number.
type query func(n *FrontEnd, a map[uint16][]byte, isDump bool) ([]attrs, error)

var queries = map[uint16]query{
	cmdGet: (*FrontEnd).getDevices, cmdPortGet: (*FrontEnd).getPorts, cmdSysGet: (*FrontEnd).getSystem,
	cmdGetChardev: (*FrontEnd).getChardev, cmdResGet: (*FrontEnd).getSummary, cmdResQPGet: listOf(qpTable),
	cmdResCQGet: listOf(cqTable), cmdResMRGet: listOf(mrTable), cmdResPDGet: listOf(pdTable),
	cmdResCTXGet: listOf(contextTable), cmdResSRQGet: listOf(srqTable),
	cmdStatGet: (*FrontEnd).getCounters,
}

// changes are the commands that need rights over the machine's devices.
var changes = map[uint16]bool{cmdSet: true, cmdNewLink: true, cmdDelLink: true, cmdSysSet: true, cmdStatSet: true,
	cmdStatDel: true}

// execute executes a request.
func (n *FrontEnd) execute(h *header) [][]byte {
	command := h.typ & commandMask
	run := queries[command]
	switch {
	case h.typ>>clientShift != clientDev:
		return [][]byte{h.status(syscall.EINVAL)}
	case changes[command]:
		return [][]byte{h.status(syscall.EPERM)}
	case run == nil:
		return [][]byte{h.status(syscall.EOPNOTSUPP)}
	}
	isDump := h.flags&flagDump == flagDump
	list, err := run(n, attributes(h.body), isDump)
	if err != nil {
		return [][]byte{h.status(errnoOf(err))}
	}
	var replies [][]byte
	for _, a := range list {
		flags := uint16(0)
		if isDump {
			flags = flagMulti
		}
		replies = append(replies, h.reply(h.typ, flags, a))
	}
	switch {
	case isDump:
		replies = append(replies, h.done())
	case h.flags&flagAck != 0:
		replies = append(replies, h.status(0))
	}
	return replies
}

func errnoOf(err error) syscall.Errno {
	if e, ok := err.(syscall.Errno); ok { //nolint:errorlint // queries return no other errors
		return e
	}
	return syscall.EINVAL
}

// device returns the device of a request. Error: EINVAL; ENODEV.
func (n *FrontEnd) device(a map[uint16][]byte) (*uverbs.Device, error) {
	index, ok := a[attrDevIndex]
	if !ok || len(index) < 4 {
		return nil, syscall.EINVAL
	}
	list := n.cfg.Devices.Devices()
	for i := range list {
		if list[i].Number == ne.Uint32(index) {
			return &list[i], nil
		}
	}
	return nil, syscall.ENODEV
}

// devices returns the devices that a request concerns: all, or the one that it names.
func (n *FrontEnd) devices(a map[uint16][]byte, isDump bool) ([]uverbs.Device, error) {
	if _, ok := a[attrDevIndex]; isDump && !ok {
		return n.cfg.Devices.Devices(), nil
	}
	d, err := n.device(a)
	if err != nil {
		return nil, err
	}
	return []uverbs.Device{*d}, nil
}

// named returns the attributes that every reply about a device begins with.
func named(d *uverbs.Device) (a attrs) {
	a.u32(attrDevIndex, d.Number)
	a.text(attrDevName, d.Name)
	return a
}

func (n *FrontEnd) getDevices(q map[uint16][]byte, isDump bool) ([]attrs, error) {
	list, err := n.devices(q, isDump)
	if err != nil {
		return nil, err
	}
	var replies []attrs
	for i := range list {
		d := &list[i]
		a, attr := named(d), d.Attr()
		a.u32(attrPortIndex, uint32(len(attr.Ports)))
		a.u64(attrCapFlags, 0)
		a.text(attrFirmware, d.FirmwareText())
		a.u64(attrNodeGUID, uint64(attr.GUID))
		a.u64(attrSystemGUID, uint64(d.SystemGUID()))
		a.u8(attrNodeType, nodeCA)
		a.u8(attrDim, 0)
		a.text(attrProtocol, protocol(attr))
		replies = append(replies, a)
	}
	return replies, nil
}

// protocol returns the name of the protocol of a device's first port.
func protocol(a *ci.CAAttr) string {
	if len(a.Ports) > 0 && a.Ports[0].Link == ci.LinkInfiniBand {
		return "ib"
	}
	return "roce"
}

func (n *FrontEnd) getPorts(q map[uint16][]byte, isDump bool) ([]attrs, error) {
	list, err := n.devices(q, isDump)
	if err != nil {
		return nil, err
	}
	port := uint32(0) // all
	if !isDump {
		b := q[attrPortIndex]
		if len(b) < 4 {
			return nil, syscall.EINVAL
		}
		if port = ne.Uint32(b); port == 0 || port > uint32(len(list[0].Attr().Ports)) {
			return nil, syscall.EINVAL
		}
	}
	var replies []attrs
	for i := range list {
		for k := range list[i].Attr().Ports {
			if number := uint32(k + 1); port == 0 || port == number {
				replies = append(replies, portAttrs(&list[i], number))
			}
		}
	}
	return replies, nil
}

func portAttrs(d *uverbs.Device, number uint32) attrs {
	a, p := named(d), &d.Attr().Ports[number-1]
	a.u32(attrPortIndex, number)
	if p.Link == ci.LinkInfiniBand {
		a.u64(attrCapFlags, uint64(p.Capability))
		if len(p.GIDs) > 0 {
			a.u64(attrSubnetPrefix, prefix(p.GIDs[0].GID))
		}
		a.u32(attrLID, uint32(p.LID))
		a.u32(attrSMLID, uint32(p.SMLID))
		a.u8(attrLMC, p.LMC)
	}
	a.u8(attrPortState, uint8(p.State))
	a.u8(attrPhysState, p.PhysState)
	for _, g := range p.GIDs {
		if g.Interface == "" {
			continue
		}
		if i, err := net.InterfaceByName(g.Interface); err == nil {
			a.u32(attrNdevIndex, uint32(i.Index))
			a.text(attrNdevName, g.Interface)
		}
		break
	}
	return a
}

// prefix returns the first half of a GID.
func prefix(g ci.GID) (n uint64) {
	for _, b := range g[:8] {
		n = n<<8 | uint64(b)
	}
	return n
}

// getSystem reports that all network namespaces share the devices, and that memory survives a fork: the daemon copies
// from the addresses of a process.
func (n *FrontEnd) getSystem(map[uint16][]byte, bool) ([]attrs, error) {
	var a attrs
	a.u8(attrNetnsMode, 1)
	a.u8(attrCopyOnFork, 1)
	return []attrs{a}, nil
}

// The device files, by the type in a request.
const (
	typeUverbs = "uverbs"
)

func (n *FrontEnd) getChardev(q map[uint16][]byte, _ bool) ([]attrs, error) {
	var a attrs
	name := q[attrChardevType]
	for len(name) > 0 && name[len(name)-1] == 0 {
		name = name[:len(name)-1]
	}
	switch string(name) {
	case typeUverbs:
		d, err := n.device(q)
		if err != nil {
			return nil, err
		}
		major, minor := d.Numbers()
		a.u64(attrChardev, encodeDevice(major, minor))
		a.u64(attrChardevABI, uint64(d.ABI()))
		a.text(attrChardevName, d.FileName())
		a.u32(attrDriver, d.Driver())
		return []attrs{a}, nil
	case "":
		return nil, syscall.EINVAL
	}
	return nil, syscall.EOPNOTSUPP // libraries then use sysfs
}

// encodeDevice returns device numbers as one (huge_encode_dev of Linux).
func encodeDevice(major, minor uint32) uint64 {
	return uint64(minor&0xff) | uint64(major)<<8 | uint64(minor&^0xff)<<12
}
