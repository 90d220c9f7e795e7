package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/bus/vfiouser"
	"ciddk/ci"
	"ciddk/internal/command"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/testenv"
	"ciddk/rvt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runProgram runs a command line, and returns its output.
func runProgram(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, &o, &e)
	return status, o.String(), e.String()
}

func TestUsage(t *testing.T) {
	topology := filepath.Join(t.TempDir(), "one.net")
	require.NoError(t, os.WriteFile(topology, []byte("Ca 1 \"h1\"\n[1] \"h2\"[1]\nCa 1 \"h2\"\n[1] \"h1\"[1]\n"),
		0o600))
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"--help", 0, ""},
		{"", command.ExitUsage, "expected one of"},
		{"serve", command.ExitUsage, "<socket>"},
		{"serve --link token-ring /x", command.ExitUsage, "--link"},
		{"serve --topology /does/not/exist /x", command.ExitUsage, "/does/not/exist"},
		{"serve /x=h1", command.ExitError, "a node needs --topology"},
		{"serve --configure /x", command.ExitError, "--configure needs --topology"},
		{"serve --tap t0 /x", command.ExitError, "need --link ethernet"},
		{"serve --topology " + topology + " /x", command.ExitError, "/x=NODE"},
		{"serve --topology " + topology + " --link ethernet /x=h1", command.ExitError, "are for --link infiniband"},
		{"serve --topology " + topology + " /x=h3", command.ExitError, `"h3"`},
		{"serve --link ethernet --dgram /a /x", command.ExitError, "LOCAL,REMOTE"},
		{"serve /does/not/exist/x", command.ExitError, "/does/not/exist/x"},
		{"qemu --memory 0 /x", command.ExitError, "want MiB"},
		{"qemu /it's", command.ExitError, "quotation mark"},
	} {
		status, _, errs := runProgram(t, strings.Fields(tt.args)...)
		assert.Equal(t, tt.status, status, "%s: %s", tt.args, errs)
		assert.Contains(t, errs, tt.want, tt.args)
	}
}

func TestQEMU(t *testing.T) {
	status, out, _ := runProgram(t, "qemu", "--memory", "512", "/run/a", "/run/b")
	require.Zero(t, status)
	for _, want := range []string{"size=512M,share=on", "id=rp1,chassis=2,slot=2",
		`'{"driver":"vfio-user-pci","bus":"rp0","rombar":0,"socket":{"type":"unix","path":"/run/a"}}'`,
		`"path":"/run/b"`} {
		assert.Contains(t, out, want)
	}
}

// TestServe serves cards on every kind of link, and looks at each as QEMU does.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	topology := filepath.Join(dir, "two.net")
	require.NoError(t, os.WriteFile(topology,
		[]byte("Ca 1 \"h1\"\n[1] \"h2\"[1]\n\nCa 1 \"h2\"\n[1] \"h1\"[1]\n"), 0o600))
	for name, tt := range map[string]struct {
		args, nodes []string
		device      uint16
	}{
		"infiniband": {nil, []string{"", ""}, prm.DeviceConnectX3},
		"topology":   {[]string{"--topology", topology, "--configure"}, []string{"=h1", "=h2"}, prm.DeviceConnectX3},
		"ethernet": {[]string{"--link", "ethernet", "--pro", "--verbose", "--stream",
			filepath.Join(dir, "stream"), "--dgram",
			filepath.Join(dir, "a") + "," + filepath.Join(dir, "b")}, []string{"", ""}, prm.DeviceConnectX3Pro},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			args := append([]string{"serve"}, tt.args...)
			var paths []string
			for i, n := range tt.nodes {
				paths = append(paths, filepath.Join(t.TempDir(), string(rune('a'+i))))
				args = append(args, paths[i]+n)
			}
			var out testenv.Output
			done := make(chan int, 1)
			go func() { done <- run(ctx, args, &out, io.Discard) }()
			for _, path := range paths {
				require.Eventually(t, func() bool { return strings.Contains(out.String(), path+`"}}'`) }, time.Minute,
					time.Millisecond)
				f, err := vfiouser.Dial(ctx, path)
				require.NoError(t, err)
				assert.EqualValues(t, prm.VendorID, f.ID().Vendor)
				assert.Equal(t, tt.device, f.ID().Device)
				require.NoError(t, f.Close())
			}
			stop()
			assert.Zero(t, <-done)
		})
	}
}

// TestConfiguredPort checks that a port of a subnet without a manager is active again after its driver has closed it.
func TestConfiguredPort(t *testing.T) {
	topology := filepath.Join(t.TempDir(), "two.net")
	require.NoError(t, os.WriteFile(topology,
		[]byte("Ca 1 \"h1\"\n[1] \"h2\"[1]\n\nCa 1 \"h2\"\n[1] \"h1\"[1]\n"), 0o600))
	s, err := newSubnet(t.Context(), &serveCmd{Topology: topology, Configure: true})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.close()) }()
	p, err := s.port(0, "h1")
	require.NoError(t, err)
	defer func() { assert.NoError(t, p.Close()) }()
	cable, ok := ci.As[rvt.CablePort](p)
	require.True(t, ok)
	for range 2 {
		assert.Equal(t, ci.PortActive, p.Attr().State)
		lid := p.Attr().LID
		cable.SetLink(false)
		assert.Equal(t, ci.PortDown, p.Attr().State)
		cable.SetLink(true)
		assert.Equal(t, lid, p.Attr().LID)
	}
}
