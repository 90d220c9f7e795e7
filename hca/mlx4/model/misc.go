package model

import (
	"ciddk/internal/mlx4/prm"
	"ciddk/mad"
)

// setNode sets the node description that the agents of all ports return.
func (c *command) setNode() prm.Status {
	b, ok := c.inbox(nodeDescriptionSize)
	if !ok {
		return prm.BadParam
	}
	c.nodeDescription = b
	return prm.OK
}

const nodeDescriptionSize = 64

// describe puts the description of SET_NODE in a response with a node description.
func (m *Model) describe(out []byte) {
	var h mad.Header
	h.Parse(out)
	if m.nodeDescription != nil && h.Method == mad.GetResp && h.Attribute == mad.AttrNodeDescription &&
		(h.Class == mad.ClassSubnetLID || h.Class == mad.ClassSubnetDirected) {
		copy(out[smpData:], m.nodeDescription)
	}
}

const smpData = 64 // offset of an attribute in an SMP

// Opcode modifiers of CONFIG_DEV.
const (
	configDevSet = 0
	configDevGet = 1
)

// configDev sets or returns the configuration of the device, of which RoCE v2 needs the UDP port.
func (c *command) configDev() prm.Status {
	if !c.cfg.Pro {
		return prm.BadOp
	}
	size := prm.ConfigDevRoCEPort.Layout.Size
	switch c.opMod {
	case configDevSet:
		b, ok := c.inbox(size)
		if !ok {
			return prm.BadParam
		}
		if p := prm.ConfigDevRoCEPort.Get(b); p != 0 && p != roceV2Port {
			return prm.BadParam // the links have no other
		}
		c.deviceConfig = b
		return prm.OK
	case configDevGet:
		if c.deviceConfig == nil {
			return c.outbox(make([]byte, size))
		}
		return c.outbox(c.deviceConfig)
	}
	return prm.BadOp
}

const roceV2Port = 4791
