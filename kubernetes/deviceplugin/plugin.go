package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"ciddk/kubernetes/node"
)

// Resource is the name of the resource.
const Resource = node.Kind

// socketName is the name of the plugin's socket in the kubelet's directory, and idPrefix the beginning of IDs.
const (
	socketName    = node.Vendor + ".sock"
	kubeletSocket = "kubelet.sock"
	idPrefix      = "plugin-"
)

// Config configures a device plugin.
type Config struct {
	Node interface {
		Prepare(c node.Claim) error
	}
	NumDevices int
	Adapter    string // settings of each adapter, as for ddkd serve --adapter
	DeviceName string // beginning of the names of devices; "": that of ddkd
	Dir        string // of the kubelet's and the plugin's sockets
	Log        *slog.Logger
}

// Run serves the kubelet until ctx ends. It registers again when the kubelet starts again.
func Run(ctx context.Context, cfg Config) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Add(cfg.Dir); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := serve(ctx, cfg, w); err != nil {
			return err
		}
	}
	return nil
}

// serve serves the kubelet until it starts again.
func serve(ctx context.Context, cfg Config, w *fsnotify.Watcher) error {
	path := filepath.Join(cfg.Dir, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	p := &plugin{cfg: cfg, end: make(chan struct{})}
	s := grpc.NewServer()
	api.RegisterDevicePluginServer(s, p)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		close(p.end)
		s.Stop()
		<-served //nolint:errcheck // that of a server which was stopped
	}()
	if err := register(ctx, cfg.Dir); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	cfg.Log.Info("ready", "resource", Resource, "devices", cfg.NumDevices)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-w.Events:
			if e.Has(fsnotify.Create) && filepath.Base(e.Name) == kubeletSocket {
				return nil
			}
		case err := <-w.Errors:
			return err
		}
	}
}

// register registers the plugin with the kubelet, when that listens.
func register(ctx context.Context, dir string) error {
	c, err := grpc.NewClient("unix://"+filepath.Join(dir, kubeletSocket),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = api.NewRegistrationClient(c).Register(ctx, &api.RegisterRequest{Version: api.Version,
		Endpoint: socketName, ResourceName: Resource, Options: new(api.DevicePluginOptions)},
		grpc.WaitForReady(true))
	return err
}

// plugin is what the kubelet calls.
type plugin struct {
	api.UnimplementedDevicePluginServer
	cfg Config
	end chan struct{}
}

// GetDevicePluginOptions returns that there are none.
func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return new(api.DevicePluginOptions), nil
}

// ListAndWatch sends the devices, which do not change.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	r := new(api.ListAndWatchResponse)
	for i := range p.cfg.NumDevices {
		r.Devices = append(r.Devices, &api.Device{ID: fmt.Sprintf("%s%d", idPrefix, i), Health: api.Healthy})
	}
	if err := stream.Send(r); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-p.end:
	}
	return nil
}

// Allocate prepares the claims of devices.
func (p *plugin) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	all := new(api.AllocateResponse)
	for _, c := range r.ContainerRequests {
		if len(c.DevicesIds) != 1 {
			return nil, fmt.Errorf("a container can have one %s, and not %d", Resource, len(c.DevicesIds))
		}
		id := c.DevicesIds[0]
		if err := p.cfg.Node.Prepare(node.Claim{ID: id, Adapters: []string{p.cfg.Adapter},
			DeviceName: p.cfg.DeviceName}); err != nil {
			p.cfg.Log.Error("allocate", "device", id, "error", err)
			return nil, err
		}
		all.ContainerResponses = append(all.ContainerResponses, &api.ContainerAllocateResponse{
			CdiDevices: []*api.CDIDevice{{Name: node.DeviceID(id)}}})
	}
	return all, nil
}
