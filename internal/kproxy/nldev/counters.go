package nldev

import (
	"maps"
	"slices"
	"syscall"

	"ciddk/internal/kproxy/uverbs"
)

// getCounters returns the hardware counters of ports. As in sysfs, those of an adapter with one port are the port's;
// a port of another adapter has none.
func (n *FrontEnd) getCounters(q map[uint16][]byte, isDump bool) ([]attrs, error) {
	list, err := n.devices(q, isDump)
	if err != nil {
		return nil, err
	}
	if b := q[attrPortIndex]; !isDump && (len(b) < 4 || ne.Uint32(b) == 0 ||
		ne.Uint32(b) > uint32(len(list[0].Attr().Ports))) {
		return nil, syscall.EINVAL
	}
	var replies []attrs
	for i := range list {
		if len(list[i].Attr().Ports) == 1 {
			replies = append(replies, counterAttrs(&list[i]))
		}
	}
	if !isDump && len(replies) == 0 {
		return nil, syscall.EINVAL
	}
	return replies, nil
}

func counterAttrs(d *uverbs.Device) attrs {
	a := named(d)
	a.u32(attrPortIndex, 1)
	var table attrs
	counts := d.Counters().Hardware
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		var entry attrs
		entry.text(attrCounterName, name)
		entry.u64(attrCounterValue, counts[name])
		table.nest(attrHWCounter, entry)
	}
	a.nest(attrHWCounters, table)
	return a
}
