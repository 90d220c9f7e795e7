package mlx4

import (
	"errors"

	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/mad"
)

// methodAt is the offset of the method in a management datagram.
const methodAt = 3

// LocalMAD has the agent in the firmware execute a management datagram, and check its keys as those of one from the
// network. out is zero if it has no response. Status:
// InvalidPort, InvalidParameter, InvalidCAHandle.
func (c *ca) LocalMAD(num uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	const verb = "CA.LocalMAD"
	if !c.refs.Alive() {
		return fail(verb, ci.InvalidCAHandle, "")
	}
	p := c.hca.port(num)
	switch {
	case p == nil:
		return fail(verb, ci.InvalidPort, "the adapter has no such port")
	case in == nil || out == nil:
		return fail(verb, ci.InvalidParameter, "a MAD is nil")
	}
	if p.isEthernet() && refuse(in, out) {
		return nil
	}
	slid := uint16(0)
	if src != nil {
		slid = uint16(src.DLID)
	}
	if in[methodAt] == byte(mad.Set) {
		defer p.forget() // CA.Query may come before the event of the change
	}
	err := c.hca.dev.MadIfc(c.hca.ctx, num, 0, slid, in[:], out[:])
	if e, ok := errors.AsType[*fw.CommandError](err); ok && e.Status == prm.BadPkt {
		*out = ci.MAD{} // the agent has discarded the datagram
		return nil
	}
	if err != nil {
		return firmwareError(verb, err)
	}
	return nil
}

// refuse makes the response to a request of subnet management on an Ethernet port, which has none, though the firmware
// would execute it. It reports false for another datagram.
func refuse(in, out *ci.MAD) bool {
	var h mad.Header
	h.Parse(in[:])
	isDirected := h.Class == mad.ClassSubnetDirected
	if !isDirected && h.Class != mad.ClassSubnetLID || h.Method != mad.Get && h.Method != mad.Set {
		return false
	}
	*out = *in
	h.Method, h.Status = mad.GetResp, mad.StatusBadVersion
	if isDirected {
		h.Status |= mad.StatusDirection
	}
	h.Put(out[:])
	return true
}
