//go:build linux && (amd64 || arm64)

package verbs

import (
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/hca/verbs/internal/ibv"
)

// abilities are what a device shows only in use.
type abilities struct {
	uc, resize bool
	inline     int // bytes
}

// maxInline is the largest size of inline data that is tried. No provider of rdma-core 65 offers more.
const maxInline = 4096

// tryAbilities creates objects, and destroys them again.
func tryAbilities(dev *ibv.Context, a *ibv.DeviceAttr) (can abilities, err error) {
	pd, err := dev.AllocPD()
	if err != nil {
		return can, fmt.Errorf("ibv_alloc_pd: %w", err)
	}
	defer func() { err = errors.Join(err, dev.DeallocPD(pd)) }()
	cq, err := dev.CreateCQ(1, ibv.Channel{}, 0)
	if err != nil {
		return can, fmt.Errorf("ibv_create_cq: %w", err)
	}
	defer func() { err = errors.Join(err, dev.DestroyCQ(cq)) }()
	try := func(typ int32, inline int) bool {
		q, _, err := dev.CreateQP(pd, ibv.QPInitAttr{Type: typ, Cap: ibv.QPCap{MaxSendWR: 1, MaxRecvWR: 1,
			MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: uint32(inline)}}, cq, cq, ibv.SRQ{})
		return err == nil && dev.DestroyQP(q) == nil
	}
	if !try(ibv.QPTypeRC, 0) {
		return can, errors.New("the device creates no QP of type RC")
	}
	can.uc = try(ibv.QPTypeUC, 0)
	for low, high := 0, maxInline+1; low+1 < high; can.inline = low {
		if n := (low + high) / 2; try(ibv.QPTypeRC, n) {
			low = n
		} else {
			high = n
		}
	}
	size := min(64, int(a.MaxCQE))
	can.resize = dev.ResizeCQ(cq, size) == nil
	return can, nil
}

// claims returns the capabilities of the device.
func (h *HCA) claims() (c ci.Caps) {
	a := &h.attr
	for _, k := range []struct {
		has  bool
		caps ci.Caps
	}{
		{true, ci.CapUD | ci.CapAV | ci.CapEventHandlers},
		{h.can.uc, ci.CapUC},
		{h.can.resize, ci.CapResizeCQ},
		{a.MaxSRQ > 0, ci.CapSRQ},
		{a.MaxSRQ > 0 && a.CapFlags&ibv.DeviceSRQResize != 0, ci.CapModifySRQDepth},
		{a.MaxMcastGrp > 0 && a.MaxMcastQPAttach > 0, ci.CapMulticast},
		{a.MaxMW > 0 && a.CapFlags&ibv.DeviceMemWindow != 0, ci.CapMW1},
		{a.MaxMW > 0 && a.CapFlags&(ibv.DeviceMemWindowType2A|ibv.DeviceMemWindowType2B) != 0, ci.CapMW2},
		{a.CapFlags&ibv.DeviceMemMgtExtensions != 0, ci.CapSendInvalidate},
		{a.CapFlags&ibv.DeviceAutoPathMig != 0, ci.CapAPM},
		{a.CapFlags&ibv.DeviceCurrQPState != 0, ci.CapCurrentQPState},
	} {
		if k.has {
			c |= k.caps
		}
	}
	return c
}
