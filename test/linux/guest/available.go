package guest

import (
	"fmt"
	"slices"
	"strings"
)

// Programs lists the programs of every image, with their Debian packages.
var programs = map[string]string{
	"ip":                "iproute2",
	"rdma":              "iproute2",
	"ibv_devinfo":       "ibverbs-utils",
	"ibv_rc_pingpong":   "ibverbs-utils",
	"ibv_uc_pingpong":   "ibverbs-utils",
	"ibv_ud_pingpong":   "ibverbs-utils",
	"ibv_srq_pingpong":  "ibverbs-utils",
	"ibv_xsrq_pingpong": "ibverbs-utils",
	"rping":             "rdmacm-utils",
	"ucmatose":          "rdmacm-utils",
	"udaddy":            "rdmacm-utils",
	"mckey":             "rdmacm-utils",
	"rdma_client":       "rdmacm-utils",
	"rdma_server":       "rdmacm-utils",
	"rdma_xclient":      "rdmacm-utils",
	"rdma_xserver":      "rdmacm-utils",
}

// unavailable is an error that lists missing dependencies and the packages to install.
type unavailable struct {
	reasons  []string
	packages []string
}

func (u *unavailable) add(pkg, format string, args ...any) {
	u.reasons = append(u.reasons, fmt.Sprintf(format, args...))
	if slices.Contains(u.packages, pkg) {
		return
	}
	if pkg != "" {
		u.packages = append(u.packages, pkg)
	}
}

func (u *unavailable) Error() string {
	s := "no Linux guest: " + strings.Join(u.reasons, "; ")
	if len(u.packages) > 0 {
		s += " (apt-get install " + strings.Join(u.packages, " ") + ")"
	}
	return s
}
