package reference

import (
	"fmt"
	"maps"
	"slices"

	"ciddk/ci"
	"ciddk/rvt"
)

// The commands of CA.VendorCall.
const (
	// VendorCounters returns the counters of the HCA as text, a line "name value" for each, sorted by name.
	VendorCounters = 1
	// VendorQPCounters returns the counters of the QP that is the only object of the call, in the same form.
	VendorQPCounters = 2
	// VendorDescription returns Config.NodeDescription.
	VendorDescription = 3
)

// vendorCall implements rvt.Ops.VendorCall. Status: InvalidParameter for a command that does not exist, or Data that is
// too short for the result; InvalidHandle for objects other than the command's.
func (h *HCA) vendorCall(op *ci.VendorOp, objects []ci.Object) error {
	bad := func(s ci.Status, format string, args ...any) error {
		return &ci.Error{Verb: "CA.VendorCall", Status: s, Detail: fmt.Sprintf(format, args...)}
	}
	var text []byte
	switch op.Command {
	case VendorCounters:
		if len(objects) != 0 {
			return bad(ci.InvalidHandle, "%d objects, want none", len(objects))
		}
		m := h.Counters()
		for _, name := range slices.Sorted(maps.Keys(m)) {
			text = fmt.Appendf(text, "%s %d\n", name, m[name])
		}
	case VendorQPCounters:
		if len(objects) != 1 {
			return bad(ci.InvalidHandle, "%d objects, want one QP", len(objects))
		}
		q, ok := ci.As[*rvt.QP](objects[0])
		if !ok {
			return bad(ci.InvalidHandle, "the object is no QP")
		}
		c, ok := h.QPCounters(q.Num())
		if !ok {
			return bad(ci.InvalidHandle, "the QP is destroyed")
		}
		text = fmt.Appendf(text, "accepted %d\nwrong_address %d\nentropy_changes %d\nwrong_entropy %d\nfar_psn %d\n"+
			"marked %d\nnotified %d\n", c.Accepted, c.WrongAddress, c.EntropyChanges, c.WrongEntropy, c.FarPSN,
			c.Marked, c.Notified)
	case VendorDescription:
		if len(objects) != 0 {
			return bad(ci.InvalidHandle, "%d objects, want none", len(objects))
		}
		text = []byte(h.cfg.NodeDescription)
	default:
		return bad(ci.InvalidParameter, "command %d, want %d to %d", op.Command, VendorCounters, VendorDescription)
	}
	if len(text) > len(op.Data) {
		return bad(ci.InvalidParameter, "Data has %d bytes, the result %d", len(op.Data), len(text))
	}
	op.N, op.Status = copy(op.Data, text), 0
	return nil
}
