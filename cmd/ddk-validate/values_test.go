package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/validate"
)

// TestValues checks that settings with which no target could be opened are rejected before a target is opened.
func TestValues(t *testing.T) {
	for _, tt := range []struct {
		link, key, value, err string
	}{
		{"udp", "ip", "4", ""}, {"udp", "ip", "6", ""}, {"network", "ip", "6", ""}, {"udp", "port", "1", ""},
		{"udp", "privileged", "1", ""}, {"", "privileged", "1", ""}, {"udp", "sources", "4", ""},
		{"udp", "ip", "5", "--set ip=5: want 4 or 6"},
		{"network", "ip", "", ""}, {"network", "odd", "1", ""}, {"direct", "odd", "0", ""},
		{"direct", "odd", "2", "--set odd=2: want 0 or 1"},
		{"direct", "claims", "few", ""}, {"network", "claims", "all", ""},
		{"network", "claims", "none", "--set claims=none: want all or few"},
		{"udp", "loopback", "direct", ""}, {"udp", "loopback", "off", "--set loopback=off: want wire or direct"},
		{"direct", "loopback", "wire", "--set loopback is not for the link direct"},
		{"udp", "odd", "1", "--set odd is not for the link udp"},
		{"udp", "port", "0", "--set port=0: want 1 to 65535"},
		{"udp", "port", "65536", "--set port=65536: want 1 to 65535"},
		{"udp", "sources", "0", "--set sources=0: want 1 to 64"},
		{"udp", "sources", "many", "--set sources=many: want 1 to 64"},
		{"udp", "privileged", "yes", "--set privileged=yes: want 0 or 1"},
		{"direct", "ip", "6", "--set ip is not for the link direct, which has: agents, claims, legal, odd"},
		{"direct", "agents", "passing", ""},
		{"direct", "agents", "software", "--set agents=software: want kit, hardware or passing"},
		{"fabric", "fabric", "sim", ""},
		{"fabric", "nodes", "h1,h4", "--set nodes needs --set fabric"},
		{"fabric", "nodes", "h1", "--set nodes=h1: want two nodes"},
		{"direct", "nodes", "h1,h2", "--set nodes is not for the link direct, which has: agents, claims, legal, odd"},
		{"network", "privileged", "1", "--set privileged is not for the link network, which has: claims, ip, legal, odd"},
		{"udp", "color", "red", "has no setting \"color\""},
	} {
		err := drivers()[0].CheckSettings(validate.Options{Link: tt.link, Values: map[string]string{tt.key: tt.value}})
		if tt.err == "" {
			require.NoError(t, err, "%+v", tt)
			continue
		}
		require.ErrorContains(t, err, tt.err)
	}
}
