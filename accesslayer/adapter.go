package accesslayer

import (
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
)

// Adapter is a registered HCA with a cache of its attributes. The cache is updated before clients are notified of a
// change. An Adapter can still be read after its HCA was removed.
type Adapter struct {
	al   *AL
	hca  ci.HCA
	info ci.HCAInfo
	n    *node
	exec *serial
	ca   ci.CA // the only open of the driver
	attr atomic.Pointer[ci.CAAttr]

	removing bool        // guarded by al.mu, as is poll
	poll     clock.Timer // until the next query
}

// present reports whether clients may open the adapter. al.mu is held.
func (a *Adapter) present() bool { return a.n.state == alive && !a.removing }

// GUID returns the GUID that identifies the HCA.
func (a *Adapter) GUID() ci.GUID { return a.info.GUID }

// Info returns what the driver reports about the HCA.
func (a *Adapter) Info() ci.HCAInfo { return a.info }

// Attr returns the attributes of the last query. They are shared, and must not be changed. CA.Query queries the driver.
func (a *Adapter) Attr() *ci.CAAttr { return a.attr.Load() }

// Port returns the attributes of a port, counted from 1, as of the last query. Status: InvalidPort.
func (a *Adapter) Port(num uint8) (*ci.PortAttr, error) { return port("Adapter.Port", a.Attr(), num) }

func port(verb string, attr *ci.CAAttr, num uint8) (*ci.PortAttr, error) {
	if num == 0 || int(num) > len(attr.Ports) {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPort, Detail: fmt.Sprintf("port %d does not exist: the "+
			"HCA has %d ports", num, len(attr.Ports))}
	}
	return &attr.Ports[num-1], nil
}

// OnUndelivered calls fn with the HCA's reports about datagrams of QP1 that the network could not deliver, until stop
// is called. ok reports whether the HCA has such reports; see ci.UndeliveredReporter.
func (a *Adapter) OnUndelivered(fn func(ci.Undelivered)) (stop func(), ok bool) {
	r, ok := ci.As[ci.UndeliveredReporter](a.hca)
	if !ok {
		return func() {}, false
	}
	return r.OnUndelivered(fn), true
}

// FindPKey returns the index and the entry of a partition in a port's P_Key table. It compares the low 15 bits. If the
// partition has two entries, FindPKey returns the one of the full member, which has bit 15 set (IBTA volume 1, 10.9.1).
// Status: InvalidPort, NotFound.
func (a *Adapter) FindPKey(portNum uint8, pkey ci.PKey) (index uint16, entry ci.PKey, err error) {
	const verb, member = "Adapter.FindPKey", 0x8000
	p, err := port(verb, a.Attr(), portNum)
	if err != nil {
		return 0, 0, err
	}
	found := false
	for i, k := range p.PKeys {
		if k&^member == 0 || k&^member != pkey&^member || found && k&member == 0 {
			continue
		}
		if index, entry, found = uint16(i), k, true; k&member != 0 {
			break
		}
	}
	if !found {
		return 0, 0, &ci.Error{Verb: verb, Status: ci.NotFound, Detail: fmt.Sprintf("port %d is not in partition %04x",
			portNum, uint16(pkey))}
	}
	return index, entry, nil
}

// FindGID calls the function FindGID for all ports. Status: NotFound.
func (a *Adapter) FindGID(gid ci.GID) (portNum uint8, index uint16, err error) {
	portNum, index, ok := FindGID(a.Attr(), 0, gid)
	if !ok {
		return 0, 0, &ci.Error{Verb: "Adapter.FindGID", Status: ci.NotFound,
			Detail: fmt.Sprintf("no port has GID %x", gid)}
	}
	return portNum, index, nil
}

// FindGID returns the port and the index of a GID in the tables of a CA's ports. Several entries may have the same GID,
// such as a link-local one. FindGID prefers those of port preferred (0: none), and among them any other type to RoCEv1,
// since a RoCEv2 peer does not receive RoCEv1 packets. ok is false for the zero GID.
func FindGID(attr *ci.CAAttr, preferred uint8, gid ci.GID) (num uint8, index uint16, ok bool) {
	if gid == (ci.GID{}) {
		return 0, 0, false
	}
	best := 0
	for i := range attr.Ports {
		for k, e := range attr.Ports[i].GIDs {
			if e.GID != gid {
				continue
			}
			fits := 1
			if attr.Ports[i].Num == preferred {
				fits += 2
			}
			if e.Type != ci.GIDRoCEv1 {
				fits++
			}
			if fits > best {
				num, index, best = attr.Ports[i].Num, uint16(k), fits
			}
		}
	}
	return num, index, best > 0
}
