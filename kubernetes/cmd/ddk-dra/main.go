// Command ddk-dra gives pods of Kubernetes RDMA devices, without hardware and without rights of the pods.
// docs/kubernetes.md is for its users. The parts are processes of their own, so that none has more rights than it
// needs:
//
//	ddk-dra node      # starts daemons in the network namespaces of pods; knows nothing of Kubernetes
//	ddk-dra driver    # dynamic resource allocation; needs no right but the API server's
//	ddk-dra plugin    # or: a device plugin
//	ddk-dra hook      # what container runtimes execute
//	ddk-dra launch    # what becomes a daemon
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"ciddk/kubernetes/deviceplugin"
	"ciddk/kubernetes/driver"
	"ciddk/kubernetes/node"
)

func main() {
	var commands struct {
		Node   nodeCmd   `cmd:"" help:"Start daemons in the network namespaces of pods, for the other commands."`
		Driver driverCmd `cmd:"" help:"Serve the kubelet with dynamic resource allocation."`
		Plugin pluginCmd `cmd:"" help:"Serve the kubelet as a device plugin."`
		Hook   hookCmd   `cmd:"" help:"Give a container its devices. Container runtimes execute it."`
		Launch launchCmd `cmd:"" hidden:""`
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k := kong.Parse(&commands, kong.Name("ddk-dra"), kong.Description("Gives pods RDMA devices without hardware."))
	k.BindTo(ctx, (*context.Context)(nil))
	k.Bind(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	k.FatalIfErrorf(k.Run())
}

// common are the flags of all commands.
type common struct {
	Dir string `help:"Directory of claims, also for the container runtime." default:"/var/lib/ddk"`
}

type nodeCmd struct {
	common
	CDI    string `name:"cdi" help:"Directory of CDI devices." default:"/var/run/cdi"`
	DDKD   string `name:"ddkd" help:"The program." default:"/ddkd"`
	DDKRun string `name:"ddkrun" help:"The program." default:"/ddkrun"`
	User   int    `help:"User that daemons run as." placeholder:"UID"`
}

// Run serves the other commands until ctx ends.
func (c *nodeCmd) Run(ctx context.Context, log *slog.Logger) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	n, err := node.Open(node.Config{Dir: c.Dir, CDI: c.CDI, Self: self, DDKD: c.DDKD, Run: c.DDKRun, User: c.User,
		Log: log})
	if err != nil {
		return err
	}
	return n.Serve(ctx)
}

type driverCmd struct {
	common
	Kubeconfig string `help:"File with the address of the API server. Default: that of the pod." placeholder:"PATH"`
	NodeName   string `help:"Name of the node." env:"NODE_NAME" required:"" placeholder:"NAME"`
	Devices    int    `help:"Devices that the node offers." default:"110" placeholder:"N"`
	Interface  string `help:"Interface of pods, whose addresses devices have." default:"eth0" placeholder:"NAME"`
	Plugins    string `help:"Directory of the driver's socket." default:"/var/lib/kubelet/plugins/rdma.ciddk"`
	Registry   string `help:"Directory of drivers' sockets." default:"/var/lib/kubelet/plugins_registry"`
}

// Run serves the kubelet until ctx ends.
func (c *driverCmd) Run(ctx context.Context, log *slog.Logger) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit but that of the API server: each claim of a pod is a request
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Plugins, 0o750); err != nil {
		return err
	}
	return driver.Run(ctx, driver.Config{Node: node.Client{Dir: c.Dir}, Client: client, NodeName: c.NodeName,
		NumDevices: c.Devices, Interface: c.Interface, Plugins: c.Plugins, Registry: c.Registry, Log: log})
}

type pluginCmd struct {
	common
	Devices    int    `help:"Devices that the node offers." default:"110" placeholder:"N"`
	Adapter    string `help:"Settings of each adapter, as for ddkd." default:"interface=eth0"`
	DeviceName string `help:"Beginning of the names of RDMA devices. Default: rxe_ddk." placeholder:"NAME"`
	Plugins    string `help:"Directory of sockets." default:"/var/lib/kubelet/device-plugins"`
}

// Run serves the kubelet until ctx ends.
func (c *pluginCmd) Run(ctx context.Context, log *slog.Logger) error {
	return deviceplugin.Run(ctx, deviceplugin.Config{Node: node.Client{Dir: c.Dir}, NumDevices: c.Devices,
		Adapter: c.Adapter, DeviceName: c.DeviceName, Dir: c.Plugins, Log: log})
}

type hookCmd struct {
	common
	Claim string `help:"Claim of the container." required:"" placeholder:"ID"`
}

// Run reads the state of the container, as the OCI runtime specification has it.
func (c *hookCmd) Run() error { return node.Client{Dir: c.Dir}.Hook(c.Claim, os.Stdin) }

type launchCmd struct {
	User int
	Dir  string
	Args []string `arg:""`
}

// Run becomes the daemon.
func (c *launchCmd) Run() error { return node.Launch(c.User, c.Dir, c.Args) }
