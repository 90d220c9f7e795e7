package kernelcm

import (
	"log/slog"

	"ciddk/accesslayer"
	"ciddk/softroce"
)

// Config describes what Open opens. The zero value is ready for use: all RDMA devices of the machine.
type Config struct {
	// Device is the name of an RDMA device, such as mlx5_0 or rxe0; Interface the name of a network interface, such as
	// eth0, whose RDMA device is opened. At most one of them is set.
	Device, Interface string
	// Software permits the software adapter on an address of Interface where that has no RDMA device. Peers reach it as
	// they reach a device.
	Software bool
	// SoftRoCE is the configuration of the software adapter.
	SoftRoCE softroce.Config
	// AccessLayer is the configuration of the access layer of a device.
	AccessLayer accesslayer.Config
	// Logger reports which adapter was opened. nil: slog.Default.
	Logger *slog.Logger
}
