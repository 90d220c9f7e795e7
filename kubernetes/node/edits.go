package node

import (
	"path/filepath"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// Kind is the kind of the CDI devices, whose names are IDs of claims.
const Kind = Vendor + "/" + class

// Vendor is the vendor of the CDI devices, and the beginning of the names of their files.
const (
	Vendor = "rdma.ciddk"
	class  = "adapter"
)

// DeviceID returns the name by which a container runtime knows the CDI device of a claim.
func DeviceID(claim string) string { return Kind + "=" + claim }

// The directories in containers.
const (
	podMount  = "/run/ddk"
	toolMount = "/opt/ddk"
)

// environment is what programs find the devices with: that of ddkrun --install with the directory podMount, and the
// socket for ddkrun.
var environment = []string{
	"LD_PRELOAD=" + podMount + "/carrier.so",
	"ASAN_OPTIONS=verify_asan_link_order=0",
	"DDKRUN_SOCKET=" + podMount + "/" + runDir + "/" + socket + ".verbs",
	"DDKRUN_ROOT=" + podMount + "/root",
	"DDKRUN_SHARE_MEMORY=auto",
	"DDKD_SOCKET=" + podMount + "/" + runDir + "/" + socket,
}

// spec returns the CDI device of a claim.
func (n *Node) spec(c *claim) *specs.Spec {
	tool := filepath.Join(n.toolDir(), toolName)
	mount := func(from, to string) *specs.Mount {
		return &specs.Mount{HostPath: from, ContainerPath: to, Type: "bind",
			Options: []string{"rbind", "ro", "nosuid", "nodev", "rprivate"}}
	}
	return &specs.Spec{Version: specs.CurrentVersion, Kind: Kind, Devices: []specs.Device{{Name: c.ID,
		ContainerEdits: specs.ContainerEdits{
			Env:    environment,
			Mounts: []*specs.Mount{mount(filepath.Join(c.dir, podDir), podMount), mount(n.toolDir(), toolMount)},
			Hooks: []*specs.Hook{{HookName: cdi.CreateRuntimeHook, Path: tool,
				Args: []string{tool, "hook", "--dir", n.cfg.Dir, "--claim", c.ID}}},
		}}}}
}

// specName returns the name of the file of a CDI device, without its suffix.
func specName(claim string) string { return Vendor + "-" + class + "_" + claim }
