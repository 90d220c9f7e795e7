package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"ciddk/internal/testenv"
	"ciddk/kubernetes/node"
)

// uidOf returns the UID of a claim with a name.
func uidOf(name string) types.UID {
	sum := sha256.Sum256([]byte(name))
	text := hex.EncodeToString(sum[:16])
	return types.UID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}

// A machine is a machine with the processes of the driver.
type machine struct {
	t   *testing.T
	dir string

	isContainer bool
	node        *process
	driver      *process
	kubeconfig  string
	api         *apiServer
	cdi         *cdi.Cache
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// newMachine starts the node's part, in a PID namespace as a container has it, or in that of the test.
func newMachine(t *testing.T, isContainer bool) *machine {
	need(t)
	dir, err := os.MkdirTemp("", "ddk") // t.TempDir can be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	m := &machine{t: t, dir: dir, isContainer: isContainer}
	for _, name := range []string{"plugins", "registry", "kubelet", "cdi"} {
		require.NoError(t, os.Mkdir(m.path(name), 0o755))
	}
	m.cdi, err = cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(m.path("cdi")))
	require.NoError(t, err)
	m.startNode()
	return m
}

// startNode starts the node's part.
func (m *machine) startNode() {
	args := []string{"node", "--cdi", m.path("cdi"), "--ddkd", filepath.Join(programs, "ddkd"), "--ddkrun",
		filepath.Join(programs, "ddkrun")}
	if users, err := os.ReadFile("/proc/self/uid_map"); err == nil && len(strings.Fields(string(users))) == 3 &&
		strings.Fields(string(users))[2] != "1" {
		args = append(args, "--user", strconv.Itoa(daemonUser))
	}
	m.node = m.start(args...)
}

// daemonUser is the user of daemons, if the tests run as root.
const daemonUser = 65532

// startDriver starts the driver, and an API server if there is none.
func (m *machine) startDriver() {
	if m.api == nil {
		m.api, m.kubeconfig = newAPIServer(m.t)
	}
	m.driver = m.start("driver", "--kubeconfig", m.kubeconfig, "--node-name", nodeName, "--plugins", m.path("plugins"),
		"--registry", m.path("registry"), "--devices", "4")
}

// A process is one of ddk-dra.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out testenv.Output
	end chan struct{} // closed when it has ended
}

// start starts a command and waits until it is ready.
func (m *machine) start(args ...string) *process {
	args = append(args, "--dir", m.path("state"))
	p := &process{t: m.t, cmd: exec.Command(filepath.Join(programs, "ddk-dra"), args...), end: make(chan struct{})}
	p.cmd.Stderr = &p.out
	if m.isContainer && args[0] == "node" {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	require.NoError(m.t, p.cmd.Start())
	go func() {
		defer close(p.end)
		_ = p.cmd.Wait() // its status is in cmd
	}()
	m.t.Cleanup(func() {
		p.stop(syscall.SIGTERM)
		if m.t.Failed() {
			m.t.Log(args[0], p.out.String())
		}
	})
	select {
	case <-p.out.Seen("msg=ready"):
	case <-p.end:
		require.Fail(m.t, "ended", p.out.String())
	}
	return p
}

// stop ends a process by a signal.
func (p *process) stop(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // it may have ended
	<-p.end
}

// client returns a client of the node's part.
func (m *machine) client() node.Client { return node.Client{Dir: m.path("state")} }

// dial connects to a socket of the driver as the kubelet does.
func (m *machine) dial(path string) *grpc.ClientConn {
	c, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(m.t, err)
	m.t.Cleanup(func() { c.Close() })
	return c
}

// kubelet returns the driver as the kubelet finds it: by the registration.
func (m *machine) kubelet() dra.DRAPluginClient {
	found, err := filepath.Glob(m.path("registry/*.sock"))
	require.NoError(m.t, err)
	require.Len(m.t, found, 1)
	r := registration.NewRegistrationClient(m.dial(found[0]))
	info, err := r.GetInfo(m.t.Context(), &registration.InfoRequest{})
	require.NoError(m.t, err)
	assert.Equal(m.t, registration.DRAPlugin, info.Type)
	assert.Equal(m.t, "rdma.ciddk", info.Name)
	assert.Contains(m.t, info.SupportedVersions, dra.DRAPluginService)
	_, err = r.NotifyRegistrationStatus(m.t.Context(), &registration.RegistrationStatus{PluginRegistered: true})
	require.NoError(m.t, err)
	return dra.NewDRAPluginClient(m.dial(info.Endpoint))
}

func claimOf(rc *resourceapi.ResourceClaim) *dra.Claim {
	return &dra.Claim{Namespace: rc.Namespace, Uid: string(rc.UID), Name: rc.Name}
}

// prepare prepares a claim and returns its CDI devices.
func (m *machine) prepare(k dra.DRAPluginClient, rc *resourceapi.ResourceClaim) ([]string, string) {
	r, err := k.NodePrepareResources(m.t.Context(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{claimOf(rc)}})
	require.NoError(m.t, err)
	a := r.Claims[string(rc.UID)]
	require.NotNil(m.t, a)
	var ids []string
	for _, d := range a.Devices {
		ids = append(ids, d.CdiDeviceIds...)
	}
	return ids, a.Error
}

// unprepare removes a claim.
func (m *machine) unprepare(k dra.DRAPluginClient, rc *resourceapi.ResourceClaim) {
	r, err := k.NodeUnprepareResources(m.t.Context(),
		&dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{claimOf(rc)}})
	require.NoError(m.t, err)
	require.Empty(m.t, r.Claims[string(rc.UID)].Error)
}

// await waits until the node's part has logged a text.
func (m *machine) await(text string) {
	select {
	case <-m.node.out.Seen(text):
	case <-m.node.end:
		require.Fail(m.t, "ended", m.node.out.String())
	}
}

// assertNothing checks that no claim has left anything behind.
func (m *machine) assertNothing() {
	for _, pattern := range []string{"cdi/*", "state/claims/*"} {
		found, err := filepath.Glob(m.path(pattern))
		require.NoError(m.t, err)
		assert.Empty(m.t, found)
	}
}

// assertSlice checks the ResourceSlice of the node.
func (m *machine) assertSlice() {
	list, err := m.api.ResourceV1().ResourceSlices().Watch(m.t.Context(), metav1.ListOptions{})
	require.NoError(m.t, err)
	defer list.Stop()
	found, err := m.api.ResourceV1().ResourceSlices().List(m.t.Context(), metav1.ListOptions{})
	require.NoError(m.t, err)
	if len(found.Items) == 0 { // it is coming
		found.Items = append(found.Items, *(<-list.ResultChan()).Object.(*resourceapi.ResourceSlice))
	}
	slice := found.Items[0]
	assert.Equal(m.t, "rdma.ciddk", slice.Spec.Driver)
	assert.Equal(m.t, nodeName, *slice.Spec.NodeName)
	require.Len(m.t, slice.Spec.Devices, 4)
	assert.Equal(m.t, "RoCEv2", *slice.Spec.Devices[0].Attributes["gidType"].StringValue)
}

// assertEnvironment checks that a container has the environment that ddkrun --install prints in it.
func (m *machine) assertEnvironment(p *pod, devices []string) {
	c, err := p.start(m.cdi, devices, "env")
	require.NoError(m.t, err)
	environment := c.wait(m.t)
	c, err = p.start(m.cdi, devices, "/opt/ddk/ddkrun", "--install", "/run/other")
	require.NoError(m.t, err)
	installed := strings.ReplaceAll(c.wait(m.t), "/run/other", "/run/ddk")
	assert.Contains(m.t, installed, "LD_PRELOAD=")
	for v := range strings.Lines(installed) {
		assert.Contains(m.t, environment, v)
	}
}

// TestPods runs unmodified programs in two pods with a device each, which exchange data by the pods' addresses.
func TestPods(t *testing.T) {
	pods := newPods(t)
	need(t, "ibv_devinfo", "ibv_rc_pingpong")
	m := newMachine(t, true)
	m.startDriver()
	m.assertSlice()
	k := m.kubelet()
	var ids [2][]string
	var claims [2]*resourceapi.ResourceClaim
	for i, name := range []string{"server", "client"} {
		claims[i] = m.api.newClaim(name, "")
		var text string
		ids[i], text = m.prepare(k, claims[i])
		require.Empty(t, text)
		require.Len(t, ids[i], 1)
	}
	server, err := pods[0].start(m.cdi, ids[0], "ibv_rc_pingpong", "-g", "0", "-n", "100", "-c")
	require.NoError(t, err)
	// Another container of the pod shares the device, and waits until the server listens.
	second, err := pods[0].start(m.cdi, ids[0], "/opt/ddk/ddkrun", "--wait-port", "18515", "ibv_devinfo", "-v")
	require.NoError(t, err)
	assert.Contains(t, second.wait(t), "::ffff:10.1.0.1")
	client, err := pods[1].start(m.cdi, ids[1], "ibv_rc_pingpong", "-g", "0", "-n", "100", "-c", "10.1.0.1")
	require.NoError(t, err)
	assert.Contains(t, client.wait(t), "100 iters")
	assert.Contains(t, server.wait(t), "100 iters")
	m.assertEnvironment(pods[1], ids[1])
	for _, rc := range claims {
		m.unprepare(k, rc)
	}
	m.assertNothing()
}
