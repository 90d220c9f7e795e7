package sma

import (
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
)

// A SoftConfig describes a SoftNode.
type SoftConfig struct {
	Type             uint8   // mad.NodeCA (also 0), mad.NodeSwitch or mad.NodeRouter
	GUID, SystemGUID ci.GUID // SystemGUID 0 is GUID
	VendorID         uint32  // 24 bits
	DeviceID         uint16
	Revision         uint32
	Description      string     // at most 64 bytes
	NumPorts         uint8      // of the whole node, without port 0 of a switch; 0 counts Ports
	Ports            []SoftPort // the ports of this SoftNode, by number without gaps
	Switch           mad.SwitchInfo
	Hardware         Hardware // nil is NoHardware
}

// A SoftPort describes a port of a SoftNode.
type SoftPort struct {
	// Num is the number of the port. Port 0 of a switch is described, too; without it, it gets DefaultPortInfo.
	Num uint8
	// GUID is the port's, of a port with an address.
	GUID ci.GUID
	// Aliases are entries 1, 2, … of the GUID table of a port with an address. A zero is an empty entry.
	Aliases []ci.GUID
	// Info is the port's initial PortInfo. DefaultPortInfo returns a useful one.
	Info mad.PortInfo
	// NumPKeys is the size of the P_Key table; 0 is 32 for ports with an address, and Switch.PartEnfCap for external
	// ports of a switch. PKeys are its first entries; nil is the default partition, 0xFFFF, in ports with an address.
	NumPKeys int
	PKeys    []ci.PKey
}

// DefaultPortInfo returns the PortInfo of a port that is down and can train: 4X of up to 10 Gb/s a lane, MTU 4096,
// eight data VLs.
func DefaultPortInfo() mad.PortInfo {
	return mad.PortInfo{GIDPrefix: DefaultGIDPrefix, State: uint8(ci.PortDown), PhysState: PhysPolling,
		LinkDownDefault: PhysPolling, WidthEnabled: 3, WidthSupported: 3, WidthActive: 2, SpeedSupported: 7,
		SpeedEnabled: 7, SpeedActive: 4, NeighborMTU: uint8(ci.MTU2048), MTUCap: uint8(ci.MTU4096), VLCap: 4,
		OperationalVLs: 4, VLArbHighCap: 8, VLArbLowCap: 8, GUIDCap: 8, RespTimeValue: 16,
		CapabilityMask: uint32(ci.PortCapReregister | ci.PortCapTrap | ci.PortCapNotice | ci.PortCapSLMapping |
			ci.PortCapSystemGUID | ci.PortCapMaskNotice)}
}

// DefaultGIDPrefix is the GID prefix of a subnet without a configured one (IBTA volume 1, 4.1.1).
const DefaultGIDPrefix uint64 = 0xfe80 << 48

const defaultPKeys = 32

func (c *SoftConfig) setDefaults() {
	if c.Type == 0 {
		c.Type = mad.NodeCA
	}
	if c.SystemGUID == 0 {
		c.SystemGUID = c.GUID
	}
	if c.Hardware == nil {
		c.Hardware = NoHardware{}
	}
	ports := append([]SoftPort(nil), c.Ports...)
	if c.Type == mad.NodeSwitch && (len(ports) == 0 || ports[0].Num != 0) {
		ports = append([]SoftPort{{Info: DefaultPortInfo()}}, ports...)
	}
	c.Ports = ports
	if c.NumPorts == 0 {
		c.NumPorts = uint8(len(ports))
		if c.Type == mad.NodeSwitch {
			c.NumPorts--
		}
	}
	for i := range c.Ports {
		c.setPortDefaults(&c.Ports[i])
	}
}

func (c *SoftConfig) setPortDefaults(p *SoftPort) {
	kind := c.kind(p.Num)
	if kind.hasAddress() {
		if p.PKeys == nil {
			p.PKeys = []ci.PKey{0xffff}
		}
		if p.NumPKeys == 0 {
			p.NumPKeys = max(defaultPKeys, len(p.PKeys))
		}
		p.Info.GUIDCap = max(p.Info.GUIDCap, 1)
	} else if p.NumPKeys == 0 {
		p.NumPKeys = int(c.Switch.PartEnfCap)
	}
	if kind == KindSwitchBase {
		p.Info.State, p.Info.PhysState = uint8(ci.PortActive), PhysLinkUp
		if p.GUID == 0 {
			p.GUID = c.GUID
		}
	}
	p.Info.LocalPortNum = p.Num
}

func (c *SoftConfig) kind(port uint8) PortKind {
	switch {
	case c.Type != mad.NodeSwitch:
		return KindCA
	case port == 0:
		return KindSwitchBase
	}
	return KindSwitchPort
}

// Limits of the tables (IBTA volume 1, 14.2.5.4, 14.2.5.7).
const (
	maxLinearEntries    = 0xc000
	maxMulticastEntries = 0x3fff
	maxPKeys            = 0xffff
)

func (c *SoftConfig) check() error {
	switch {
	case c.Type > mad.NodeRouter:
		return fmt.Errorf("sma: node type %d: want 1 (CA), 2 (switch) or 3 (router)", c.Type)
	case c.GUID == 0:
		return errors.New("sma: the node has no GUID")
	case len(c.Description) > mad.SMPDataLen:
		return fmt.Errorf("sma: description of %d bytes: want at most %d", len(c.Description), mad.SMPDataLen)
	case len(c.Ports) == 0:
		return errors.New("sma: the node has no ports")
	case c.Switch.LinearFDBCap > maxLinearEntries || c.Switch.McastFDBCap > maxMulticastEntries:
		return fmt.Errorf("sma: forwarding tables of %d and %d LIDs: want at most %d and %d", c.Switch.LinearFDBCap,
			c.Switch.McastFDBCap, maxLinearEntries, maxMulticastEntries)
	}
	for i, p := range c.Ports {
		switch {
		case int(p.Num) != int(c.Ports[0].Num)+i:
			return fmt.Errorf("sma: port %d follows port %d: want the ports in order, without gaps", p.Num,
				c.Ports[max(i-1, 0)].Num)
		case p.Num > c.NumPorts || p.Num == 0 && c.Type != mad.NodeSwitch:
			return fmt.Errorf("sma: port %d of a node with %d ports", p.Num, c.NumPorts)
		case p.NumPKeys > maxPKeys || len(p.PKeys) > p.NumPKeys:
			return fmt.Errorf("sma: port %d: %d P_Keys in a table of %d", p.Num, len(p.PKeys), p.NumPKeys)
		case len(p.Aliases) > 0 && len(p.Aliases) >= int(p.Info.GUIDCap):
			return fmt.Errorf("sma: port %d: %d alias GUIDs in a table of %d with the port's own", p.Num,
				len(p.Aliases), p.Info.GUIDCap)
		}
	}
	if c.Type == mad.NodeSwitch && len(c.Ports) != int(c.NumPorts)+1 {
		return fmt.Errorf("sma: a switch of %d ports with %d described: want all", c.NumPorts, len(c.Ports)-1)
	}
	return nil
}
