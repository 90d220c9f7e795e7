package reference

import (
	"ciddk/ci"
	"ciddk/rvt"
)

// PortConfig says how to make a port.
type PortConfig struct {
	open func(portEnv) (rvt.Port, error)
	guid func() ci.GUID // for an HCA whose first port this is
	link ci.Link
}

// portEnv is what a port learns of its HCA.
type portEnv struct {
	clock rvt.Clock
}
