package accesslayer

import (
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
)

// Adapter is a registered HCA, with a cache of its attributes that is fresh before any client hears of a change. It remains good for
// reading when the HCA has gone.
type Adapter struct {
	al   *AL
	hca  ci.HCA
	info ci.HCAInfo
	n    *node
	exec *serial
	ca   ci.CA // the one open of the driver
	attr atomic.Pointer[ci.CAAttr]

	removing bool        // guarded by al.mu, as is
	poll     clock.Timer // to the next query
}

// present tells whether clients may open it; al.mu is held.
func (a *Adapter) present() bool { return a.n.state == alive && !a.removing }

// GUID names the HCA.
func (a *Adapter) GUID() ci.GUID { return a.info.GUID }

// Info is what the driver says of itself.
func (a *Adapter) Info() ci.HCAInfo { return a.info }

// Attr are the attributes as last seen. They are shared: read only. CA.Query asks the driver.
func (a *Adapter) Attr() *ci.CAAttr { return a.attr.Load() }

// Port gives the attributes of a port, counted from 1, as last seen. Status: InvalidPort.
func (a *Adapter) Port(num uint8) (*ci.PortAttr, error) { return port("Adapter.Port", a.Attr(), num) }

func port(verb string, attr *ci.CAAttr, num uint8) (*ci.PortAttr, error) {
	if num == 0 || int(num) > len(attr.Ports) {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPort, Detail: fmt.Sprintf("port %d of an HCA with %d ports", num, len(attr.Ports))}
	}
	return &attr.Ports[num-1], nil
}

// OnUndelivered has fn called with the HCA's reports of datagrams of QP1 that the network could not deliver, and whether the HCA has
// such reports: see ci.UndeliveredReporter. stop ends the calls.
func (a *Adapter) OnUndelivered(fn func(ci.Undelivered)) (stop func(), ok bool) {
	r, ok := ci.As[ci.UndeliveredReporter](a.hca)
	if !ok {
		return func() {}, false
	}
	return r.OnUndelivered(fn), true
}

// FindPKey looks for a partition in a port's P_Key table. Only the low 15 bits are compared; of a partition's two entries the full
// member's is preferred (bit 15 set in entry; IBTA volume 1, 10.9.1). Status: InvalidPort, NotFound.
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
		return 0, 0, &ci.Error{Verb: verb, Status: ci.NotFound, Detail: fmt.Sprintf("port %d is not in partition %04x", portNum, uint16(pkey))}
	}
	return index, entry, nil
}

// FindGID is the function FindGID over all ports. Status: NotFound.
func (a *Adapter) FindGID(gid ci.GID) (portNum uint8, index uint16, err error) {
	portNum, index, ok := FindGID(a.Attr(), 0, gid)
	if !ok {
		return 0, 0, &ci.Error{Verb: "Adapter.FindGID", Status: ci.NotFound, Detail: fmt.Sprintf("no port has GID %x", gid)}
	}
	return portNum, index, nil
}

// FindGID looks for a GID in the tables of a CA's ports; none has the zero GID. Several rows may have it, such as a link-local one: first come
// those of the port that was asked (0: none), and before those of RoCEv1, whose packets a peer that speaks RoCEv2 would not take, all others.
func FindGID(attr *ci.CAAttr, asked uint8, gid ci.GID) (num uint8, index uint16, ok bool) {
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
			if attr.Ports[i].Num == asked {
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
