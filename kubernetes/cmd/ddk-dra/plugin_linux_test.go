package main

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"ciddk/kubernetes/node"
)

// A kubelet is the kubelet's end of the device plugin API.
type kubelet struct {
	api.UnimplementedRegistrationServer
	registered chan *api.RegisterRequest
}

// Register passes a registration on.
func (k *kubelet) Register(_ context.Context, r *api.RegisterRequest) (*api.Empty, error) {
	k.registered <- r
	return new(api.Empty), nil
}

// startKubelet starts a kubelet in a directory, with a socket in place of an earlier one's.
func startKubelet(t *testing.T, dir string) (k *kubelet, stop func()) {
	k = &kubelet{registered: make(chan *api.RegisterRequest, 1)}
	l, err := net.Listen("unix", dir+"/kubelet.sock")
	require.NoError(t, err)
	s := grpc.NewServer()
	api.RegisterRegistrationServer(s, k)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return k, func() {
		s.Stop()
		require.NoError(t, <-served)
	}
}

// TestPlugin allocates a device by the device plugin, before and after the kubelet starts again.
func TestPlugin(t *testing.T) {
	pods := newPods(t)
	need(t, devinfo[0])
	m := newMachine(t, true)
	k, stop := startKubelet(t, m.path("kubelet"))
	m.start("plugin", "--plugins", m.path("kubelet"), "--devices", "3", "--device-name", "mlx5_")
	for range 2 {
		r := <-k.registered
		assert.Equal(t, "rdma.ciddk/adapter", r.ResourceName)
		assert.Equal(t, api.Version, r.Version)
		p := api.NewDevicePluginClient(m.dial(m.path("kubelet/" + r.Endpoint)))
		_, err := p.GetDevicePluginOptions(t.Context(), new(api.Empty))
		require.NoError(t, err)
		list, err := p.ListAndWatch(t.Context(), new(api.Empty))
		require.NoError(t, err)
		devices, err := list.Recv()
		require.NoError(t, err)
		require.Len(t, devices.Devices, 3)
		assert.Equal(t, api.Healthy, devices.Devices[2].Health)
		request := func(ids ...string) *api.AllocateRequest {
			return &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}}
		}
		a, err := p.Allocate(t.Context(), request(devices.Devices[2].ID))
		require.NoError(t, err)
		require.Len(t, a.ContainerResponses, 1)
		require.Len(t, a.ContainerResponses[0].CdiDevices, 1)
		c, err := pods[0].start(m.cdi, []string{a.ContainerResponses[0].CdiDevices[0].Name}, devinfo...)
		require.NoError(t, err)
		assert.Contains(t, c.wait(t), "mlx5_0")
		m.await("daemon stopped")
		_, err = p.Allocate(t.Context(), request(devices.Devices[0].ID, devices.Devices[1].ID))
		require.ErrorContains(t, err, "a container can have one rdma.ciddk/adapter, and not 2")
		stop()
		require.NoError(t, os.RemoveAll(m.path("kubelet/kubelet.sock")))
		k, stop = startKubelet(t, m.path("kubelet"))
	}
	<-k.registered
	stop()
	require.NoError(t, m.client().Unprepare("plugin-2"))
	m.assertNothing()
	assert.Equal(t, "rdma.ciddk/adapter=plugin-2", node.DeviceID("plugin-2"))
}
