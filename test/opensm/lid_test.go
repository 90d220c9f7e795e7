package opensm

import (
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/fabric"
)

func ciLID(n int) ci.LID { return ci.LID(n) }

// portStatus returns the status of a port.
func (r *rig) portStatus(node string, num int) fabric.PortStatus {
	r.t.Helper()
	for _, n := range r.fabric.Status().Nodes {
		if n.ID == node {
			return n.Ports[num-1]
		}
	}
	require.FailNow(r.t, "no node", node)
	return fabric.PortStatus{}
}
