//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"ciddk/ci"
	"ciddk/hca/verbs/internal/ibv"
)

// linkEthernet is IBV_LINK_LAYER_ETHERNET.
const linkEthernet = 2

// port returns the attributes of a port as they are now.
func (h *HCA) port(n uint8) (ci.PortAttr, error) {
	p, err := h.dev.QueryPort(n)
	if err != nil {
		return ci.PortAttr{}, fmt.Errorf("ibv_query_port %d: %w", n, err)
	}
	out := ci.PortAttr{Num: n, State: ci.PortState(p.State), PhysState: p.PhysState, MTU: ci.MTU(p.ActiveMTU),
		MaxMTU: ci.MTU(p.MaxMTU), MaxMsgSize: uint64(p.MaxMsgSz), LID: ci.LID(p.LID), SMLID: ci.LID(p.SMLID),
		LMC: p.LMC, SMSL: p.SMSL, MaxVLs: p.MaxVLNum, WidthActive: p.ActiveWidth, SpeedActive: p.ActiveSpeed,
		SubnetTimeout: ci.TimeExp(p.SubnetTimeout), InitTypeReply: ci.InitType(p.InitTypeReply),
		PKeyErrors: uint16(min(p.BadPKeyCntr, 0xffff)), QKeyErrors: uint16(min(p.QKeyViolCntr, 0xffff)),
		Capability: ci.PortCap(p.CapFlags)}
	// Firmware or the kernel's driver answers managers.
	if out.HardwareAgents = true; p.LinkLayer == linkEthernet {
		out.Link = ci.LinkEthernet
	}
	if out.GIDs, err = h.gids(n, uint32(max(p.GIDTblLen, 0))); err != nil {
		return ci.PortAttr{}, err
	}
	if len(out.GIDs) > 0 { // the port GUID is the interface identifier of its first GID
		g := out.GIDs[0].GID
		for _, b := range g[8:] {
			out.GUID = out.GUID<<8 | ci.GUID(b)
		}
	}
	for i := range p.PKeyTblLen {
		k, err := h.dev.QueryPKey(n, i)
		if err != nil {
			return ci.PortAttr{}, fmt.Errorf("ibv_query_pkey %d, %d: %w", n, i, err)
		}
		out.PKeys = append(out.PKeys, ci.PKey(k))
	}
	return out, nil
}

// gids returns the GID table up to its last entry in use.
func (h *HCA) gids(port uint8, size uint32) ([]ci.GIDEntry, error) {
	var list []ci.GIDEntry
	for i := range size {
		e, err := h.dev.QueryGID(port, i)
		switch {
		case errors.Is(err, syscall.ENODATA):
			continue // an empty entry
		case err != nil:
			return nil, fmt.Errorf("ibv_query_gid_ex %d, %d: %w", port, i, err)
		case e.GID == [16]byte{}:
			continue
		}
		for len(list) < int(i) {
			list = append(list, ci.GIDEntry{})
		}
		x := ci.GIDEntry{GID: ci.GID(e.GID), Type: gidTypes[e.Type]}
		if e.NdevIndex != 0 {
			if ifc, err := net.InterfaceByIndex(int(e.NdevIndex)); err == nil {
				x.Interface = ifc.Name
			}
		}
		list = append(list, x)
	}
	return list, nil
}

var gidTypes = map[uint32]ci.GIDType{
	ibv.GIDTypeIB: ci.GIDInfiniBand, ibv.GIDTypeRoCEv1: ci.GIDRoCEv1, ibv.GIDTypeRoCEv2: ci.GIDRoCEv2,
}
