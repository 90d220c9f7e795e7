package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/bus/bustest"
	"ciddk/bus/local"
)

func TestConfigWritableBits(t *testing.T) {
	t.Parallel()
	c := bustest.New().Config()
	ones := make([]byte, bus.ConfigSize+8)
	for i := range ones {
		ones[i] = 0xff
	}
	c.Write(0, ones)
	c.Write(bus.ConfigSize, ones)
	c.Write(1<<63, ones)
	b := make([]byte, bus.ConfigSize+8)
	c.Read(0, b)
	assert.Equal(t, []byte{0x1d, 0x1d, 0x42, 0}, b[:4])
	assert.Equal(t, []byte{0x04, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, b[0x10:0x18], "BAR 0: 4096 bytes")
	assert.Equal(t, []byte{0x0c, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, b[0x18:0x20], "BAR 2: 64 KiB")
	assert.Equal(t, []byte{0xff, 0xff, 0xff}, b[bus.ConfigSize:bus.ConfigSize+3], "beyond the end")
	c.Reset()
	c.Read(0x10, b[:4])
	assert.Equal(t, []byte{4, 0, 0, 0}, b[:4])
	assert.Panics(t, func() { c.AddCapability(0x3c, 1, nil, nil) })
	assert.Panics(t, func() { c.AddCapability(0xfc, 1, make([]byte, 4), nil) })
}

// TestCapabilitiesLoop reads a list of capabilities that does not end.
func TestCapabilitiesLoop(t *testing.T) {
	t.Parallel()
	d := bustest.New()
	d.Config().AddCapability(0x50, bus.CapVPD, []byte{0, 0}, nil)
	d.Config().AddCapability(0x40, bus.CapPower, []byte{0, 0}, nil) // overwrites the first, which is in the list
	d.Config().AddCapability(0x9c, bus.CapPower, []byte{0, 0}, nil)
	f := local.New(d, "slot")
	defer f.Close()
	assert.LessOrEqual(t, len(bus.Capabilities(f.Config())), 48)
}

// TestConfigByLspci has lspci decode a configuration space.
func TestConfigByLspci(t *testing.T) {
	t.Parallel()
	lspci, err := exec.LookPath("lspci")
	if err != nil {
		t.Skip("needs lspci (Debian: pciutils)")
	}
	b := make([]byte, 256)
	bustest.New().Config().Read(0, b)
	var dump strings.Builder
	dump.WriteString("03:00.0 Test\n")
	for i := 0; i < len(b); i += 16 {
		fmt.Fprintf(&dump, "%02x: % 02x\n", i, b[i:i+16])
	}
	file := filepath.Join(t.TempDir(), "dump")
	require.NoError(t, os.WriteFile(file, []byte(dump.String()), 0o600))
	out, err := exec.Command(lspci, "-F", file, "-n", "-vv").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, want := range []string{
		"03:00.0 0880: 1d1d:0042 (rev 03)", "Subsystem: 1d1e:0007", "Capabilities: [40] Power Management version 3",
		"Capabilities: [9c] MSI-X: Enable- Count=20 Masked-", "Vector table: BAR=0 offset=00000800",
		"PBA: BAR=0 offset=00000c00", "64-bit, prefetchable",
	} {
		assert.Contains(t, string(out), want)
	}
}
