package driver

import (
	"context"
	"fmt"
	"log/slog"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"ciddk/kubernetes/node"
)

// Preparer is the node's part of the driver: node.Client or *node.Node.
type Preparer interface {
	Prepare(c node.Claim) error
	Unprepare(id string) error
}

// Config configures a driver.
type Config struct {
	Node       Preparer
	Client     kubernetes.Interface
	NodeName   string
	NumDevices int    // that claims can have at the same time
	Interface  string // of pods, whose addresses adapters have
	Plugins    string // directory of this driver's socket for the kubelet
	Registry   string // directory in which the kubelet looks for drivers
	Log        *slog.Logger
}

// Run serves the kubelet until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	resources, err := devices(cfg.NumDevices, cfg.NodeName)
	if err != nil {
		return err
	}
	d := &driver{cfg}
	h, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(Name), kubeletplugin.KubeClient(cfg.Client),
		kubeletplugin.NodeName(cfg.NodeName), kubeletplugin.PluginDataDirectoryPath(cfg.Plugins),
		kubeletplugin.RegistrarDirectoryPath(cfg.Registry), kubeletplugin.HealthService(false),
		kubeletplugin.Serialize(false))
	if err != nil {
		return err
	}
	defer h.Stop()
	if err := h.PublishResources(ctx, resources); err != nil {
		return err
	}
	cfg.Log.Info("ready", "driver", Name, "node", cfg.NodeName, "devices", cfg.NumDevices)
	<-ctx.Done()
	return nil
}

// devices returns the pool of the node. All its devices are alike: an adapter is made when it is used.
func devices(num int, nodeName string) (r resourceslice.DriverResources, err error) {
	if num < 1 || num > resourceapi.ResourceSliceMaxDevices {
		return r, fmt.Errorf("%d devices: want 1 to %d", num, resourceapi.ResourceSliceMaxDevices)
	}
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	isTrue := true
	var list []resourceapi.Device
	for i := range num {
		list = append(list, resourceapi.Device{Name: fmt.Sprintf("adapter-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"linkLayer": text("Ethernet"),
				"gidType": text("RoCEv2"), "node": text(nodeName), "software": {BoolValue: &isTrue}}})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		nodeName: {Slices: []resourceslice.Slice{{Devices: list}}}}}, nil
}

// driver is what the kubelet calls.
type driver struct{ Config }

// PrepareResourceClaims prepares claims.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (
	map[types.UID]kubeletplugin.PrepareResult, error) {
	all := map[types.UID]kubeletplugin.PrepareResult{}
	for _, rc := range claims {
		c, results, err := adapters(rc, d.Interface)
		if err == nil {
			err = d.Node.Prepare(c)
		}
		r := kubeletplugin.PrepareResult{}
		if err != nil {
			d.Log.Error("prepare", "claim", rc.UID, "name", rc.Namespace+"/"+rc.Name, "error", err)
			r.Err = fmt.Errorf("claim %s: %w", rc.Name, err)
		}
		for i := 0; err == nil && i < len(results); i++ {
			r.Devices = append(r.Devices, kubeletplugin.Device{Requests: []string{results[i].Request},
				PoolName: results[i].Pool, DeviceName: results[i].Device,
				CDIDeviceIDs: []string{node.DeviceID(string(rc.UID))}})
		}
		all[rc.UID] = r
	}
	return all, nil
}

// UnprepareResourceClaims removes claims.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (
	map[types.UID]error, error) {
	all := map[types.UID]error{}
	for _, c := range claims {
		if all[c.UID] = d.Node.Unprepare(string(c.UID)); all[c.UID] != nil {
			d.Log.Error("unprepare", "claim", c.UID, "error", all[c.UID])
		}
	}
	return all, nil
}

// HandleError logs an error of the background, such as one of the API server, which is tried again.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	d.Log.Error(msg, "error", err)
}

// WatchHealthStatus is not supported.
func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}
