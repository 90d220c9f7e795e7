package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/examples/internal/loopback"
	"ciddk/hca/reference"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// An undo list holds the functions that release what was created, in the order of creation.
type undo []func() error

func (u *undo) add(f func() error) { *u = append(*u, f) }

// close calls them in reverse order. It goes on after an error.
func (u *undo) close() error {
	var errs []error
	for _, f := range slices.Backward(*u) {
		errs = append(errs, f())
	}
	*u = nil
	return errors.Join(errs...)
}

// An adapter is the HCA of this process, with what all queue pairs share.
type adapter struct {
	hca  *reference.HCA
	cm   *rdmacm.Manager // with -R and -z
	pd   *accesslayer.PD
	addr netip.Addr
	attr *ci.CAAttr
	port ci.PortAttr
	row  uint16 // in the GID table
	gid  ci.GID
	undo undo
}

// openAdapter opens the HCA. Everything else in this program works on any HCA.
func openAdapter(ctx context.Context, o *options) (a *adapter, err error) {
	a = &adapter{}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.undo.close())
		}
	}()
	if a.addr, err = localAddr(ctx, o); err != nil {
		return a, err
	}
	var port *udp.Port
	port, a.addr, err = loopback.Open(a.addr, loopback.First, func(at netip.Addr) (*udp.Port, error) {
		return udp.New(udp.Config{Addr: at})
	})
	if err != nil {
		return a, err
	}
	if a.hca, err = reference.New(reference.Config{Ports: []rvt.Port{port}}); err != nil {
		return a, err
	}
	a.undo.add(a.hca.Close)
	al := accesslayer.New(accesslayer.Config{})
	a.undo.add(al.Close)
	if err := al.Register(a.hca); err != nil {
		return a, err
	}
	ca, err := a.openCA(al, o)
	if err != nil {
		return a, err
	}
	if a.attr, err = ca.Query(); err != nil {
		return a, err
	}
	return a, a.findPort(o)
}

// openCA opens the HCA, with a connection manager if the options need one, and allocates the PD.
func (a *adapter) openCA(al *accesslayer.AL, o *options) (ca *accesslayer.CA, err error) {
	guid := a.hca.Info().GUID
	if o.RDMACM || o.TalkCM {
		if a.cm, err = rdmacm.Open(al, rdmacm.OpenConfig{}); err != nil {
			return nil, err
		}
		a.undo.add(a.cm.Close)
		ca, a.pd, err = a.cm.IDs().Device(guid)
		return ca, err
	}
	client, err := al.Open(accesslayer.ClientConfig{Name: "perftest"})
	if err != nil {
		return nil, err
	}
	a.undo.add(client.Close)
	if ca, err = client.OpenCA(guid, nil); err != nil {
		return nil, err
	}
	a.pd, err = ca.NewPD(ci.PDNormal)
	return ca, err
}

// findPort finds port 1 and the row of the GID table, and checks what depends on the port.
func (a *adapter) findPort(o *options) error {
	if len(a.attr.Ports) == 0 {
		return errors.New("the adapter has no port")
	}
	a.port = a.attr.Ports[0]
	if a.port.State != ci.PortActive {
		return fmt.Errorf("port 1 is %v, not active", a.port.State)
	}
	row := o.GIDIndex
	if row == -1 {
		row = slices.IndexFunc(a.port.GIDs, func(g ci.GIDEntry) bool { return g.GID == ci.GID(a.addr.As16()) })
	}
	if row < 0 || row >= len(a.port.GIDs) {
		return fmt.Errorf("-x %d: the GID table of port 1 has %d rows", o.GIDIndex, len(a.port.GIDs))
	}
	a.row, a.gid = uint16(row), a.port.GIDs[row].GID
	if limit := a.port.MTU.Bytes(); o.MTU > limit {
		return fmt.Errorf("-m %d: the port's MTU is %d", o.MTU, limit)
	}
	if o.Inline > a.attr.MaxInline {
		return fmt.Errorf("-I %d: the adapter has at most %d bytes", o.Inline, a.attr.MaxInline)
	}
	return nil
}

// mtu returns the path MTU that this side proposes.
func (a *adapter) mtu(o *options) ci.MTU {
	if o.MTU != 0 {
		return mtuCode(o.MTU)
	}
	return a.port.MTU
}

// reads returns the number of RDMA reads and atomics that this side executes at a time. It is also the number that this
// side sends at a time, if the peer executes as many.
func (a *adapter) reads(o *options) int {
	if o.Test.verb != read && o.Test.verb != atomic {
		return 1
	}
	limit := min(a.attr.MaxRespResPerQP, a.attr.MaxInitDepthPerQP, 255)
	if o.Outs != -1 {
		return min(o.Outs, limit)
	}
	return limit
}

// received returns the number of packets received.
func (a *adapter) received() uint64 { return a.hca.Counters()["packets_received"] }

// localAddr returns the adapter's address, the zero Addr for a server that takes any.
func localAddr(ctx context.Context, o *options) (netip.Addr, error) {
	if o.Addr.IsValid() {
		return o.Addr, nil
	}
	if !o.client() {
		return netip.Addr{}, nil
	}
	// The address of a connected UDP socket, over which nothing is sent.
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", net.JoinHostPort(o.Host, "9"))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no route to %s: %w (-d sets the adapter's address)", o.Host, err)
	}
	defer c.Close()
	ours, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	theirs, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	if ours.Addr().Unmap() == theirs.Addr().Unmap() {
		return netip.Addr{}, fmt.Errorf("%s is the server's address, on this machine: set another one for the "+
			"client, such as -d 127.0.0.2", o.Host)
	}
	return ours.Addr().Unmap(), nil
}
