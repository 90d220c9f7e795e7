package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/kubernetes/node"
)

// TestRuntime has runc create a container with a device, whose root file system is that of this machine, and whose
// programs have no capability and cannot write to it.
func TestRuntime(t *testing.T) {
	pods := newPods(t)
	need(t, devinfo[0], "runc")
	m := newMachine(t, true)
	c := m.client()
	require.NoError(t, c.Prepare(node.Claim{ID: "a", Adapters: []string{"interface=eth0"}}))
	out, err := m.runc(pods[0], []string{node.DeviceID("a")}, devinfo...)
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "rxe_ddk0")
	m.await("daemon stopped")
	out, err = m.runc(newPod(t), []string{node.DeviceID("a")}, devinfo...)
	require.Error(t, err)
	assert.Contains(t, string(out), "error running hook")
	assert.Contains(t, string(out), "eth0", "runc passes the message of the hook on")
	require.NoError(t, c.Unprepare("a"))
	m.assertNothing()
}

// runc runs a container in a pod, without control groups.
func (m *machine) runc(p *pod, devices []string, args ...string) ([]byte, error) {
	t, bundle := m.t, m.path("bundle")
	root := filepath.Join(bundle, "rootfs")
	require.NoError(t, errors.Join(os.MkdirAll(root, 0o755), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("/", root, "", unix.MS_BIND|unix.MS_REC, "")))
	defer func() { require.NoError(t, unix.Unmount(root, unix.MNT_DETACH)) }()
	tmpfs := func(at string) oci.Mount {
		return oci.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}}
	}
	spec := &oci.Spec{Version: oci.Version, Root: &oci.Root{Path: root, Readonly: true},
		Process: &oci.Process{Args: args, Env: []string{"PATH=" + os.Getenv("PATH")}, Cwd: "/", NoNewPrivileges: true},
		Mounts: []oci.Mount{tmpfs("/dev"), {Destination: "/proc", Type: "proc", Source: "proc"}, tmpfs("/run"),
			tmpfs("/opt")},
		Linux: &oci.Linux{Namespaces: []oci.LinuxNamespace{{Type: oci.PIDNamespace}, {Type: oci.MountNamespace},
			{Type: oci.NetworkNamespace, Path: filepath.Join("/proc", p.pid(), "ns/net")}}}}
	require.NoError(t, m.cdi.Refresh())
	_, err := m.cdi.InjectDevices(spec, devices...)
	require.NoError(t, err)
	b, err := json.Marshal(spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(bundle, "config.json"), b, 0o600))
	return exec.Command("runc", "--root", m.path("runc"), "run", "--bundle", bundle, "a").CombinedOutput()
}
