package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"ciddk/kubernetes/node"
)

// devinfo is a program that fails without a device.
var devinfo = []string{"ibv_devinfo"}

// TestDriverKilled kills the driver between Prepare and Unprepare, which are repeated.
func TestDriverKilled(t *testing.T) {
	m := newMachine(t, true)
	m.startDriver()
	rc := m.api.newClaim("a", "")
	first, text := m.prepare(m.kubelet(), rc)
	require.Empty(t, text)
	assert.Equal(t, []string{node.Kind + "=" + string(rc.UID)}, first)
	m.driver.stop(syscall.SIGKILL)
	m.startDriver()
	k := m.kubelet()
	second, text := m.prepare(k, rc)
	require.Empty(t, text)
	assert.Equal(t, first, second)
	m.unprepare(k, rc)
	m.assertNothing()
	m.unprepare(k, rc)
	m.unprepare(k, m.api.newClaim("never prepared", ""))
}

// TestNodeKilled kills the node's part while a program runs. The daemon goes on, also for another container.
func TestNodeKilled(t *testing.T) {
	pods := newPods(t)
	need(t, devinfo[0])
	m := newMachine(t, false)
	c := m.client()
	require.NoError(t, c.Prepare(node.Claim{ID: "a", Adapters: []string{"interface=eth0"}}))
	first, err := pods[0].start(m.cdi, []string{node.DeviceID("a")}, "cat", "/dev/zero")
	require.NoError(t, err)
	m.node.stop(syscall.SIGKILL)
	remains := m.path("state/claims/b/pod/run")
	require.NoError(t, os.MkdirAll(remains, 0o755)) // as if Prepare or Unprepare had been interrupted
	require.NoError(t, os.WriteFile(m.path("cdi/rdma.ciddk-adapter_c.yaml"), nil, 0o600))
	m.startNode()
	assert.NoDirExists(t, m.path("state/claims/b"))
	second, err := pods[0].start(m.cdi, []string{node.DeviceID("a")}, devinfo...)
	require.NoError(t, err)
	assert.Contains(t, second.wait(t), "rxe_ddk0")
	assert.NotContains(t, m.node.out.String(), "daemon started", "that of the first container is used")
	first.kill()
	require.NoError(t, c.Unprepare("a"))
	m.await("daemon stopped")
	m.assertNothing()
}

// TestContainerKilled kills a container, and the container of the node's part. The daemons end, and start again with
// the next container.
func TestContainerKilled(t *testing.T) {
	pods := newPods(t)
	need(t, devinfo[0])
	m := newMachine(t, true)
	c := m.client()
	require.NoError(t, c.Prepare(node.Claim{ID: "a", Adapters: []string{"interface=eth0"}, DeviceName: "mlx5_"}))
	use := func() {
		x, err := pods[0].start(m.cdi, []string{node.DeviceID("a")}, devinfo...)
		require.NoError(t, err)
		assert.Contains(t, x.wait(t), "mlx5_0")
	}
	x, err := pods[0].start(m.cdi, []string{node.DeviceID("a")}, "cat", "/dev/zero")
	require.NoError(t, err)
	x.kill()
	m.await("daemon stopped")
	use()
	x, err = pods[0].start(m.cdi, []string{node.DeviceID("a")}, "cat", "/dev/zero")
	require.NoError(t, err)
	m.node.stop(syscall.SIGKILL)
	m.startNode()
	x.kill()
	use()
	require.NoError(t, c.Unprepare("a"))
	m.assertNothing()
}

// TestDaemonKilled kills a daemon, which is started again.
func TestDaemonKilled(t *testing.T) {
	pods := newPods(t)
	need(t, devinfo[0])
	m := newMachine(t, false)
	c := m.client()
	require.NoError(t, c.Prepare(node.Claim{ID: "a", Adapters: []string{"interface=eth0"}}))
	_, err := pods[0].start(m.cdi, []string{node.DeviceID("a")}, "cat", "/dev/zero")
	require.NoError(t, err)
	var pid int
	b, err := os.ReadFile(m.path("state/claims/a/lock"))
	require.NoError(t, err)
	_, err = fmt.Sscan(string(b), &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	m.await("daemon ended")
	x, err := pods[0].start(m.cdi, []string{node.DeviceID("a")}, devinfo...)
	require.NoError(t, err)
	assert.Contains(t, x.wait(t), "rxe_ddk0")
	require.NoError(t, c.Unprepare("a"))
	m.assertNothing()
}

// TestRefused has containers whose creation fails, with an error that says why, and leaves nothing behind.
func TestRefused(t *testing.T) {
	pods := newPods(t)
	lonely := newPod(t)
	m := newMachine(t, true)
	c := m.client()
	for _, id := range []string{"a", "b", "gone"} {
		require.NoError(t, c.Prepare(node.Claim{ID: id, Adapters: []string{"interface=eth0"}}))
	}
	_, err := pods[0].start(m.cdi, []string{node.DeviceID("a")}, "cat", "/dev/zero")
	require.NoError(t, err)
	require.NoError(t, m.cdi.Refresh())
	gone := m.cdi.GetDevice(node.DeviceID("gone")).GetSpec().GetPath()
	kept, err := os.ReadFile(gone)
	require.NoError(t, err)
	require.NoError(t, c.Unprepare("gone"))
	require.NoError(t, os.WriteFile(gone, kept, 0o600)) // as a runtime with an old cache has it
	require.NoError(t, os.MkdirAll(m.path("state/claims/gone/pod"), 0o755))
	for _, x := range []struct {
		pod  *pod
		id   string
		want string
	}{
		{pods[1], "a", "claim a is used by another pod"},
		{pods[0], "b", "a pod has one claim"},
		{lonely, "b", "eth0"},
		{lonely, "gone", "claim gone is not prepared"},
	} {
		_, err := x.pod.start(m.cdi, []string{node.DeviceID(x.id)}, "true")
		assert.ErrorContains(t, err, x.want)
	}
	require.NoError(t, os.Remove(gone))
	require.NoError(t, os.RemoveAll(m.path("state/claims/gone")))
	for _, id := range []string{"a", "b"} {
		require.NoError(t, c.Unprepare(id))
	}
	m.assertNothing()
}

// TestParameters has claims with parameters that are refused, or mean a device.
func TestParameters(t *testing.T) {
	m := newMachine(t, true)
	m.startDriver()
	k := m.kubelet()
	for i, x := range []struct {
		parameters []string
		want       string // of the error; of the settings after a colon
	}{
		{[]string{`{"settings": {"impair": "1%", "gids": "mlx5"}}`}, ":gids=mlx5,impair=1%,interface=eth0"},
		{[]string{`{"settings": {"address": "10.0.0.1+10.0.0.2", "link": "network"}}`},
			":address=10.0.0.1+10.0.0.2,link=network"},
		{[]string{"", `{"settings": {"address": "10.0.0.1", "link": "network"}}`},
			":interface=eth0 address=10.0.0.1,link=network"},
		{[]string{"", ""}, "2 devices would have the pod's address"},
		{[]string{`{"settings": {"fabric": "/run/x"}}`}, `no setting "fabric"; there are address, gids, impair`},
		{[]string{`{"settings": {"impair": "1%,fabric=/run/x"}}`}, "want a value without commas"},
		{[]string{`{"setting": {}}`}, `unknown field "setting"`},
		{[]string{`{"deviceName": "../x"}`}, "device name"},
		{[]string{`{"kind": "Other"}`}, "want rdma.ciddk/v1, Adapter"},
	} {
		rc := m.api.newClaim(fmt.Sprint("claim-", i), x.parameters...)
		_, text := m.prepare(k, rc)
		if settings, ok := strings.CutPrefix(x.want, ":"); ok {
			require.Empty(t, text)
			b, err := os.ReadFile(m.path(filepath.Join("state/claims", string(rc.UID), "claim.json")))
			require.NoError(t, err)
			assert.Contains(t, string(b), `"adapters":["`+strings.ReplaceAll(settings, " ", `","`)+`"]`)
		} else {
			assert.Contains(t, text, x.want)
		}
		m.unprepare(k, rc)
	}
	m.assertNothing()
}

// TestManyClaims prepares 500 claims at once, twice, and removes them.
func TestManyClaims(t *testing.T) {
	m := newMachine(t, true)
	m.startDriver()
	k := m.kubelet()
	var claims []*dra.Claim
	for i := range 500 {
		claims = append(claims, claimOf(m.api.newClaim(fmt.Sprint("claim-", i), "")))
	}
	each := func(f func(c *dra.Claim) string) {
		var wg sync.WaitGroup
		for _, c := range claims {
			wg.Go(func() { assert.Empty(t, f(c)) })
		}
		wg.Wait()
	}
	prepare := func(c *dra.Claim) string {
		r, err := k.NodePrepareResources(t.Context(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{c}})
		if err != nil {
			return err.Error()
		}
		return r.Claims[c.Uid].Error
	}
	each(prepare)
	each(prepare)
	require.NoError(t, m.cdi.Refresh())
	assert.Len(t, m.cdi.ListDevices(), len(claims))
	each(func(c *dra.Claim) string {
		r, err := k.NodeUnprepareResources(t.Context(), &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{c}})
		if err != nil {
			return err.Error()
		}
		return r.Claims[c.Uid].Error
	})
	m.assertNothing()
}
