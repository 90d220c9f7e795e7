package uverbs

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

// TestCounters has the files of counters: the adapter's are those of its port if it has only one.
func TestCounters(t *testing.T) {
	for _, x := range []struct {
		ports    int
		counters Counters
		want     map[string]string
	}{
		{1, Counters{}, map[string]string{}},
		{1, Counters{Ports: []map[string]uint64{{"x": 1}, {"y": 2}}, Hardware: map[string]uint64{"h": 1 << 63}},
			map[string]string{"/a/ports/1/counters/x": "1\n", "/a/ports/1/hw_counters/h": "9223372036854775808\n"}},
		{2, Counters{Ports: []map[string]uint64{{"x": 1}, {"x": 2}}, Hardware: map[string]uint64{"h": 3}},
			map[string]string{"/a/ports/1/counters/x": "1\n", "/a/ports/2/counters/x": "2\n",
				"/a/hw_counters/h": "3\n"}},
	} {
		var list tree
		list.addCounters("/a", &Device{attr: &ci.CAAttr{Ports: make([]ci.PortAttr, x.ports)},
			counters: func(ci.GUID) Counters { return x.counters }})
		got := map[string]string{}
		for _, e := range list {
			got[e.Path] = string(e.Data)
		}
		assert.Equal(t, x.want, got)
	}
	assert.Empty(t, (&Device{}).Counters())
}
