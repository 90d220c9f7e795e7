package validate

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKitVersion checks that a vendor's program names the kit it was built with.
func TestKitVersion(t *testing.T) {
	kit := func(m *debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{Deps: []*debug.Module{{Path: "example.com/ciddk", Version: "v9"}, m}}
	}
	replaced := func(by debug.Module) *debug.Module {
		return &debug.Module{Path: "ciddk", Version: "v0.0.0", Replace: &by}
	}
	for want, b := range map[string]*debug.BuildInfo{
		"":                   kit(&debug.Module{Path: "example.com/other"}),
		"v1.2.3":             kit(&debug.Module{Path: "ciddk", Version: "v1.2.3"}),
		"v0.0.0 => ../ciddk": kit(replaced(debug.Module{Path: "../ciddk"})),
		"v0.0.0 => a.b/c v2": kit(replaced(debug.Module{Path: "a.b/c", Version: "v2"})),
	} {
		assert.Equal(t, want, kitVersion(b))
	}
}

func TestAdapter(t *testing.T) {
	for want, id := range map[string]Identity{
		"Mellanox ConnectX-3 (vendor 0002c9, device 1003)": {VendorID: 0x2c9, DeviceID: 0x1003},
		"a software adapter (vendor ffffff, device 0002)":  {VendorID: 0xffffff, DeviceID: 2},
		"vendor 00dead, device 1003":                       {VendorID: 0xdead, DeviceID: 0x1003},
	} {
		assert.Equal(t, want, id.Adapter())
	}
}
