package fw

import (
	"context"
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// PortCaps are the capabilities of a port.
type PortCaps struct {
	Link              ci.Link // of the type in use
	IsLinkUp          bool
	IBMTU             ci.MTU
	EthMTU            uint16
	Speed             uint8 // prm.Speed40G and so on
	Widths            uint8 // bits: 0 1X, 1 4X
	NumGIDs, NumPKeys int
	NumVLANs, NumMACs int
	MaxVLs            uint8
	MAC               [6]byte
}

// checkPort returns an error for a port that the adapter does not have.
func (d *Device) checkPort(n uint8) error {
	if n == 0 || n > d.caps.NumPorts {
		return fmt.Errorf("%w: port %d of %d: %w", ci.InvalidPort, n, d.caps.NumPorts, ErrInvalid)
	}
	return nil
}

// queryPorts reads the capabilities of all ports.
func (d *Device) queryPorts(ctx context.Context) error {
	for n := range d.caps.NumPorts {
		p, err := d.queryPort(ctx, n+1)
		if err != nil {
			return err
		}
		d.ports = append(d.ports, p)
	}
	return nil
}

// Port returns the capabilities of a port, counted from 1, as they were at Open.
func (d *Device) Port(n uint8) (PortCaps, error) {
	if err := d.checkPort(n); err != nil {
		return PortCaps{}, err
	}
	return d.ports[n-1], nil
}

// QueryPort returns the capabilities and the state of a port.
func (d *Device) QueryPort(ctx context.Context, n uint8) (PortCaps, error) {
	if err := d.checkPort(n); err != nil {
		return PortCaps{}, err
	}
	if d.isClosed.Load() {
		return PortCaps{}, ErrClosed
	}
	return d.queryPort(ctx, n)
}

func (d *Device) queryPort(ctx context.Context, n uint8) (PortCaps, error) {
	b := make([]byte, prm.PortLinkUp.Layout.Size)
	if _, err := d.exec(ctx, prm.CmdQueryPort, Args{Out: b, Modifier: uint32(n)}); err != nil {
		return PortCaps{}, err
	}
	p := PortCaps{IsLinkUp: prm.PortLinkUp.Has(b), IBMTU: ci.MTU(prm.PortIBMTU.Get(b)),
		EthMTU: uint16(prm.PortEthMTU.Get(b)), Speed: uint8(prm.PortSpeed.Get(b)), Widths: uint8(prm.PortWidths.Get(b)),
		NumGIDs: 1 << prm.PortLogGIDs.Get(b), NumPKeys: 1 << prm.PortLogPKeys.Get(b),
		NumVLANs: 1 << prm.PortLogVLANs.Get(b), NumMACs: 1 << prm.PortLogMACs.Get(b),
		MaxVLs: uint8(prm.PortMaxVLs.Get(b))}
	mac := prm.PortMAC.Get(b)
	for i := range p.MAC {
		p.MAC[i] = byte(mac >> (40 - 8*i))
	}
	types := prm.PortTypes.Get(b)
	switch {
	case types == prm.PortTypeNone:
		return PortCaps{}, fmt.Errorf("fw: port %d is neither InfiniBand nor Ethernet", n)
	case types == prm.PortTypeEth || types != prm.PortTypeIB && prm.PortSuggested.Has(b):
		p.Link = ci.LinkEthernet
	default:
		p.Link = ci.LinkInfiniBand
	}
	if p.IBMTU < ci.MTU256 || p.IBMTU > ci.MTU4096 {
		return PortCaps{}, fmt.Errorf("fw: port %d reports MTU code %d", n, p.IBMTU)
	}
	if err := p.checkEthernet(); err != nil {
		return PortCaps{}, fmt.Errorf("fw: port %d reports %w", n, err)
	}
	return p, nil
}

// checkEthernet returns an error for what an Ethernet port cannot have.
func (p *PortCaps) checkEthernet() error {
	const minMTU = 576 // of IPv4, above the smallest path MTU of RoCE with its headers
	switch {
	case p.Link != ci.LinkEthernet:
		return nil
	case p.EthMTU < minMTU:
		return fmt.Errorf("an Ethernet MTU of %d bytes", p.EthMTU)
	case p.MAC == [6]byte{} || p.MAC[0]&1 != 0:
		return fmt.Errorf("the MAC address %x", p.MAC)
	}
	return nil
}

// portCmd executes a command for a port.
func (d *Device) portCmd(ctx context.Context, n uint8, op prm.Opcode, a Args) error {
	if err := d.checkPort(n); err != nil {
		return err
	}
	return d.Cmd(ctx, op, a)
}

// InitPort starts the link of a port.
func (d *Device) InitPort(ctx context.Context, n uint8) error {
	return d.portCmd(ctx, n, prm.CmdInitPort, Args{Modifier: uint32(n)})
}

// ClosePort ends the link of a port. It succeeds if the link has not been started.
func (d *Device) ClosePort(ctx context.Context, n uint8) error {
	return d.portCmd(ctx, n, prm.CmdClosePort, Args{Modifier: uint32(n)})
}

// IBPort are the settings of an InfiniBand port.
type IBPort struct {
	Capabilities uint32 // CapabilityMask of PortInfo
	MTU          ci.MTU // 0: unchanged
	VLs          uint8  // the most; 0: unchanged. The port has fewer if the adapter lacks buffers for them.
}

// SetIBPort sets an InfiniBand port. An adapter without buffers for the virtual lanes is asked for fewer (Linux port.c,
// mlx4_SET_PORT).
func (d *Device) SetIBPort(ctx context.Context, n uint8, p IBPort) error {
	b := make([]byte, prm.SetPortMTU.Layout.Size)
	prm.SetPortCapabilities.Put(b, uint64(p.Capabilities))
	if p.MTU != 0 {
		prm.SetPortChangeMTU.Put(b, 1)
		prm.SetPortMTU.Put(b, uint64(p.MTU))
	}
	set := func() error {
		return d.portCmd(ctx, n, prm.CmdSetPort, Args{In: b, Modifier: uint32(n), OpModifier: prm.SetPortModeIB})
	}
	if p.VLs == 0 {
		return set()
	}
	prm.SetPortChangeVL.Put(b, 1)
	for vls := p.VLs; ; vls /= 2 {
		prm.SetPortVLs.Put(b, uint64(vls))
		err := set()
		if vls <= 1 || !isStatus(err, prm.BadSize) {
			return err
		}
	}
}

// setEth executes SET_PORT for an Ethernet port.
func (d *Device) setEth(ctx context.Context, n uint8, what uint32, b []byte) error {
	return d.portCmd(ctx, n, prm.CmdSetPort, Args{In: b, Modifier: what<<8 | uint32(n), OpModifier: prm.SetPortModeEth})
}

// EthPort are the general settings of an Ethernet port.
type EthPort struct {
	MTU              uint16
	PauseTX, PauseRX bool
}

// SetEthPort sets an Ethernet port.
func (d *Device) SetEthPort(ctx context.Context, n uint8, p EthPort) error {
	const all = 7 // flags: MTU and both pauses are valid
	b := make([]byte, prm.GeneralFlags.Layout.Size)
	prm.GeneralFlags.Put(b, all)
	prm.GeneralMTU.Put(b, uint64(p.MTU))
	if p.PauseTX {
		prm.GeneralPauseTX.Put(b, 1)
	}
	if p.PauseRX {
		prm.GeneralPauseRX.Put(b, 1)
	}
	return d.setEth(ctx, n, prm.SetPortGeneral, b)
}

// A GIDEntry is an entry of the GID table of an Ethernet port.
type GIDEntry struct {
	GID  ci.GID
	IsV2 bool // RoCEv2
}

// SetGIDs replaces the GID table of an Ethernet port. A zero GID is an unused entry. An adapter without RoCEv2 rejects
// such entries with ErrInvalid.
func (d *Device) SetGIDs(ctx context.Context, n uint8, gids []GIDEntry) error {
	if len(gids) > prm.GIDTableSize {
		return fmt.Errorf("%w: %d GIDs (%d are possible)", ErrInvalid, len(gids), prm.GIDTableSize)
	}
	if d.caps.HasBMME(prm.BMMERoCE12) {
		b := make([]byte, prm.GIDTableSize*prm.RoCEGID.Layout.Size)
		for i, g := range gids {
			e := b[i*prm.RoCEGID.Layout.Size:]
			copy(e, g.GID[:])
			if g.IsV2 {
				prm.RoCEVersion.Put(e, 2)
				if !isIPv4(g.GID) {
					prm.RoCEType.Put(e, 1)
				}
			}
		}
		return d.setEth(ctx, n, prm.SetPortRoCEAddr, b)
	}
	if i := slices.IndexFunc(gids, func(g GIDEntry) bool { return g.IsV2 }); i >= 0 {
		return fmt.Errorf("%w: GID %d is for RoCEv2, which the adapter does not have", ErrInvalid, i)
	}
	b := make([]byte, prm.GIDTableSize*prm.GIDSize)
	for i, g := range gids {
		copy(b[i*prm.GIDSize:], g.GID[:])
	}
	return d.setEth(ctx, n, prm.SetPortGIDTable, b)
}

// isIPv4 reports whether a GID is that of an IPv4 address.
func isIPv4(g ci.GID) bool {
	return [12]byte(g[:12]) == [12]byte{10: 0xff, 11: 0xff}
}

// SetMACs replaces the MAC table of an Ethernet port. An address of zeros is an unused entry.
func (d *Device) SetMACs(ctx context.Context, n uint8, macs [][6]byte) error {
	if len(macs) > prm.MACTableSize {
		return fmt.Errorf("%w: %d MAC addresses (%d are possible)", ErrInvalid, len(macs), prm.MACTableSize)
	}
	size := prm.MACValid.Layout.Size
	b := make([]byte, prm.MACTableSize*size)
	for i, mac := range macs {
		if mac == ([6]byte{}) {
			continue
		}
		copy(b[i*size+2:], mac[:])
		prm.MACValid.Put(b[i*size:], 1)
	}
	return d.setEth(ctx, n, prm.SetPortMACTable, b)
}

// SetVLANs replaces the VLAN table of an Ethernet port. 0 is an unused entry.
func (d *Device) SetVLANs(ctx context.Context, n uint8, vlans []uint16) error {
	if len(vlans) > prm.VLANTableSize {
		return fmt.Errorf("%w: %d VLANs (%d are possible)", ErrInvalid, len(vlans), prm.VLANTableSize)
	}
	size := prm.VLANValid.Layout.Size
	b := make([]byte, prm.VLANTableSize*size)
	for i, v := range vlans {
		if v != 0 {
			prm.VLANValid.Put(b[i*size:], 1)
			prm.VLANID.Put(b[i*size:], uint64(v))
		}
	}
	return d.setEth(ctx, n, prm.SetPortVLANs, b)
}

// madSize is the size of a management datagram.
const madSize = 256

// MadIfc has the agent in the firmware process a management datagram. in has 256 bytes, or more with the info block of
// prm.MADHasInfo. out receives the reply of 256 bytes. slid is the LID of the sender of a datagram that was received.
func (d *Device) MadIfc(ctx context.Context, port, flags uint8, slid uint16, in, out []byte) error {
	if len(in) < madSize || len(in) > prm.MADLocalQPN.Layout.Size || len(out) != madSize {
		return fmt.Errorf("%w: management datagrams of %d and %d bytes", ErrInvalid, len(in), len(out))
	}
	return d.portCmd(ctx, port, prm.CmdMADIFC, Args{In: in, Out: out, Modifier: uint32(port) | uint32(slid)<<16,
		OpModifier: flags})
}

// SetNodeDescription sets the text that subnet management reads, of 64 bytes or fewer.
func (d *Device) SetNodeDescription(ctx context.Context, text string) error {
	const size = 64
	if len(text) > size {
		return fmt.Errorf("%w: a node description of %d bytes (%d are possible)", ErrInvalid, len(text), size)
	}
	b := make([]byte, size)
	copy(b, text)
	return d.Cmd(ctx, prm.CmdSetNode, Args{In: b})
}
