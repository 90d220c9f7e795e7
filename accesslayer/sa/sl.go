package sa

import (
	"context"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// SLForIP returns the service level that the administrator's QoS rules assign to connections to a TCP port of the RDMA
// IP CM service. It is that of the path from the port to itself for this service. For the service level towards a
// certain peer, use the path to the peer: its query has the service, too. Errors: as Do.
//
// SAS: ci_get_sl_for_ip_port (67), of which a driver for InfiniBand has no knowledge of its own.
func (c *Client) SLForIP(ctx context.Context, port mads.Port, ipPort uint16) (ci.SL, error) {
	return wait(func(done func(ci.SL, error)) error { return c.StartSLForIP(ctx, port, ipPort, done) })
}

// StartSLForIP sends the request of SLForIP and returns. done is called with the outcome.
func (c *Client) StartSLForIP(ctx context.Context, port mads.Port, ipPort uint16, done func(ci.SL, error)) error {
	if done == nil {
		return errNoDone
	}
	gid, err := c.portGID(port)
	if err != nil {
		return err
	}
	q := PathQuery{SGID: gid, DGID: gid, Service: mad.PortSpaceTCP.ServiceID(ipPort)}
	return c.StartPath(ctx, port, q, func(rec *mad.PathRecord, err error) {
		if err != nil {
			done(0, err)
			return
		}
		done(ci.SL(rec.SL), nil)
	})
}
