package rchca

import (
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
	"ciddk/sma"
	"ciddk/sma/pma"
)

// DeviceSMA is the part of Device for a port of an InfiniBand subnet, which a subnet manager manages. The driver has
// the agent that answers the manager, and the device the registers of the port. A port whose Info.Port has a LID needs
// no manager: it is active from the start.
type DeviceSMA interface {
	// SetPort writes the attributes that a manager sets: state, LIDs, MTU, GIDs, P_Keys. A port sends and receives
	// packets of consumers while it is active. QPs whose P_Keys do not match do not reach each other.
	SetPort(p ci.PortAttr)
	// Train trains the link again, or takes it down. The hardware calls HandlerSMA.LinkUp when the link is up.
	Train(isUp bool)

	pma.Source // the counters of traffic
}

// HandlerSMA is the part of Handler for a managed port.
type HandlerSMA interface {
	LinkUp()
}

// A subnet is the driver's side of a managed port: its attributes, and the agent that executes the datagrams of a
// subnet manager. The protocol above, such as directed routes and traps, is the kit's. docs/sma.md of the kit describes
// the split.
type subnet struct {
	*sma.SoftNode
	hca   *HCA
	agent *sma.Agent
	perf  *pma.Agent
}

// newSubnet returns the subnet management of an adapter.
func newSubnet(h *HCA) (*subnet, error) {
	i, p := &h.info, &h.info.Port
	info := sma.DefaultPortInfo()
	info.MTUCap, info.NeighborMTU = uint8(p.MaxMTU), uint8(p.MTU)
	if p.LID != 0 {
		info.State, info.PhysState = uint8(ci.PortActive), sma.PhysLinkUp
	}
	s := &subnet{hca: h}
	var err error
	s.SoftNode, err = sma.NewSoftNode(sma.SoftConfig{GUID: i.GUID, VendorID: i.VendorID, DeviceID: i.DeviceID,
		Revision: uint32(i.Revision), Hardware: (*managed)(s),
		Ports: []sma.SoftPort{{Num: 1, GUID: p.GUID, Info: info, PKeys: p.PKeys}}})
	if err != nil {
		return nil, err
	}
	s.Assign(1, p.LID, p.LMC, p.SMLID)
	s.agent = sma.New(sma.Config{Node: s.SoftNode, Clock: clock.Real()})
	s.perf = pma.New(pma.Config{Source: h.dev, NumPorts: 1, Supported: pma.SetOf(pma.XmitData, pma.RcvData,
		pma.XmitPkts, pma.RcvPkts)})
	return s, nil
}

// managed is the hardware as the subnet manager controls it. It implements sma.Hardware.
type managed subnet

func (m *managed) Train(_ uint8, phys uint8) { m.hca.dev.Train(phys == sma.PhysPolling) }

func (m *managed) Changed(_ uint8, c sma.Change) {
	m.hca.dev.SetPort(m.PortAttr(1))
	c.Events((*interrupts)(m.hca).PortEvent)
}

func (h *interrupts) LinkUp() { h.subnet.LinkUp(1, sma.Link{}) }

// LocalMAD executes a datagram of subnet or performance management on the port. The response to one of another class is
// that the class is not supported. Status: InvalidPort, InvalidParameter (nil in or out), InvalidCAHandle.
func (c *ca) LocalMAD(port uint8, _ *ci.AVAttr, in, out *ci.MAD) error {
	const verb = "CA.LocalMAD"
	switch {
	case !c.refs.Alive():
		return fail(verb, ci.InvalidCAHandle, "")
	case port != 1:
		return fail(verb, ci.InvalidPort, "the adapter has port 1")
	case in == nil || out == nil:
		return fail(verb, ci.InvalidParameter, "a datagram is nil")
	}
	s := c.hca.subnet
	*out = *in
	isAnswered := false
	if mad.Class(in[1]) == mad.ClassPerformance {
		isAnswered = s.perf.Execute(out)
	} else {
		isAnswered = s.agent.ExecuteLocal(port, 0, out)
	}
	if !isAnswered {
		*out = ci.MAD{}
	}
	return nil
}
