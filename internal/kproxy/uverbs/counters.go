package uverbs

import (
	"maps"
	"path"
	"slices"
)

// Counters are what an adapter has counted. Counts that the adapter does not have are absent.
type Counters struct {
	// Ports are the counters of the ports by the names that they have in sysfs, below counters: PortCounters of IBTA
	// 16.1.3.5, such as port_rcv_packets.
	Ports []map[string]uint64
	// Hardware are the counters of the whole adapter by name, those below hw_counters.
	Hardware map[string]uint64
}

// Counters returns what the adapter has counted since it is in service.
func (d *Device) Counters() Counters {
	if d.counters == nil {
		return Counters{}
	}
	return d.counters(d.GUID)
}

// addCounters adds the files of counters. Those of an adapter with one port are the port's.
func (t *tree) addCounters(ib string, d *Device) {
	c := d.Counters()
	for i, m := range c.Ports[:min(len(c.Ports), len(d.attr.Ports))] {
		t.counts(path.Join(portDir(ib, i), "counters"), m)
	}
	dir := ib
	if len(d.attr.Ports) == 1 {
		dir = portDir(ib, 0)
	}
	t.counts(path.Join(dir, "hw_counters"), c.Hardware)
}

func (t *tree) counts(dir string, m map[string]uint64) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		t.file(path.Join(dir, name), "%d", m[name])
	}
}
