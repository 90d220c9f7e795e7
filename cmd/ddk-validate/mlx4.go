package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/bus"
	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/hca/mlx4/userlib"
	"ciddk/internal/mlx4/fw"
	"ciddk/link/capture"
	"ciddk/link/capture/pcapng"
	"ciddk/link/direct"
	"ciddk/link/frame"
	"ciddk/rvt"
	"ciddk/validate"
)

// mlx4Driver is the ConnectX-3 driver, on models of the adapter.
func mlx4Driver() validate.Driver {
	return validate.Driver{
		Name:        "mlx4",
		Description: "the kit's ConnectX-3 driver, each adapter a model in the process",
		Links:       []string{"infiniband", "fabric", "ethernet"},
		Open:        openMLX4,
		CheckValues: checkMLX4,
		Keep:        true,
		Settings: map[string]string{
			"bus":    "local, or vfio-user: each model is reached by a socket (Linux); default: local",
			"roce":   "RoCE version of the link ethernet, 1 or 2; default: 2, of a ConnectX-3 Pro",
			"odd":    "1: adapters with two ports, and with unusual LIDs, P_Keys and GIDs; not for the link fabric",
			"fabric": "as for the driver reference", "nodes": "as for the driver reference",
		},
	}
}

// checkMLX4 returns an error for a setting that the link does not have, or for an invalid value.
func checkMLX4(o validate.Options) error {
	has := map[string][]string{"infiniband": {"bus", "odd"}, "ethernet": {"bus", "odd", "roce"},
		"fabric": {"bus", "fabric", "nodes"}}
	_, isKnown := mlx4Buses[o.Values["bus"]]
	var e error
	if !isKnown {
		e = fmt.Errorf("--set bus=%s: want local or vfio-user", o.Values["bus"])
	}
	_, roce := roceVersion(o)
	_, odd := odd(o)
	_, _, nodes := fabricNodes(o)
	return cmp.Or(onlyFor(o, has[o.Link]...), e, roce, odd, nodes)
}

// roceVersion returns the setting roce.
func roceVersion(o validate.Options) (ci.GIDType, error) {
	switch v := o.Values["roce"]; v {
	case "1":
		return ci.GIDRoCEv1, nil
	case "", "2":
		return ci.GIDRoCEv2, nil
	default:
		return 0, fmt.Errorf("--set roce=%s: want 1 or 2", v)
	}
}

// mlx4Links has a function for each link of the driver.
var mlx4Links = map[string]func(validate.Options) (linkage, error){
	"infiniband": func(o validate.Options) (linkage, error) {
		o.Values = map[string]string{"odd": o.Values["odd"]}
		return directLink(o)
	},
	"fabric":   fabricLink,
	"ethernet": ethernetLink,
}

// ethernetLink returns two ports of a hub of Ethernet frames. With odd values, each HCA has a second port, at another
// hub.
func ethernetLink(o validate.Options) (l linkage, err error) {
	if l.odd, err = odd(o); err != nil {
		return l, err
	}
	connect := func(hub *frame.Hub, number int) openPort {
		return func() (rvt.Port, error) {
			return frame.New(frame.Config{Carrier: hub.Join(), MAC: mlx4MAC(number), MTU: mtu})
		}
	}
	hub, hub2 := frame.NewHub(), frame.NewHub()
	for i := range 2 {
		l.ports = append(l.ports, connect(hub, i))
		if l.odd {
			l.second = append(l.second, connect(hub2, 2+i))
		}
	}
	return l, nil
}

// mlx4MAC returns the MAC address of a port: the first ports of both adapters, then the second ones.
func mlx4MAC(number int) [6]byte { return [6]byte{2, 0xdd, 0xcd, 0, 0, byte(number + 1)} }

// mlx4Adapter is an adapter of a target: a model and its driver.
type mlx4Adapter struct {
	m *model.Model
	f bus.Function
	h *mlx4.HCA

	stop func() error // ends the server of the model, or nil
}

func (a *mlx4Adapter) close() error {
	var errs []error
	if a.h != nil {
		err := a.h.Close()
		if errors.Is(err, ci.ResourceBusy) { // a wrong driver has left its CA open
			a.h.Unplug()
		}
		errs = append(errs, err)
	}
	if a.f != nil {
		errs = append(errs, a.f.Close())
	}
	if a.stop != nil {
		errs = append(errs, a.stop())
	}
	return errors.Join(append(errs, a.m.Close())...)
}

// openMLX4 opens two adapters that reach each other over the link in the options.
func openMLX4(ctx context.Context, o validate.Options) (*validate.Target, error) {
	l, err := mlx4Links[o.Link](o)
	if err != nil {
		return nil, err
	}
	t := &validate.Target{Version: "the kit's own", Capture: noCapture, Wire: l.end, NoMulticast: l.noGroups,
		Lossless: true, UserLibrary: userlib.New()}
	if o.Impair {
		imp := newImpairer()
		l.wrap(imp.wrap)
		t.Impair = imp.set
	}
	if o.Capture {
		tap := new(capture.Tap)
		l.wrap(func(open openPort) openPort {
			return func() (rvt.Port, error) {
				p, err := open()
				if err != nil {
					return nil, err
				}
				return capture.New(p, tap)
			}
		})
		t.Capture = func(path string) (func() error, error) { return pcapng.ToFile(path, tap) }
	}
	var made []*mlx4Adapter
	t.Close = func(context.Context) error {
		var errs []error
		for _, a := range made {
			errs = append(errs, a.close())
		}
		if l.close != nil {
			errs = append(errs, l.close())
		}
		return errors.Join(errs...)
	}
	t.Live = func() map[string]int {
		sum := map[string]int{}
		for _, a := range made {
			for k, n := range a.h.Live() {
				sum[k] += n
			}
		}
		return sum
	}
	for i := range l.ports {
		ports, err := l.open(i)
		if err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
		a, err := newMLX4Adapter(ctx, o, i, l.odd, ports)
		if err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
		made = append(made, a)
		t.HCAs = append(t.HCAs, a.h)
	}
	if t.SetLink = l.setLink; t.SetLink == nil {
		t.SetLink = func(up bool) error { return made[0].m.SetLink(1, up) }
	}
	t.Load = func(ctx context.Context, r ci.Registrar) (func(bool) error, error) { return loadMLX4(ctx, o, r) }
	return t, nil
}

// loadMLX4 implements validate.Target.Load: it plugs a model in, on which a bus probes the driver.
func loadMLX4(ctx context.Context, o validate.Options, r ci.Registrar) (unload func(gone bool) error, err error) {
	p, err := direct.New(new(direct.Link), direct.Config{})
	if err != nil {
		return nil, err
	}
	m, err := model.New(model.Config{Rand: seeded(o.Seed, 2), NodeDescription: description, GUID: loadedGUID(),
		Ports: []model.PortConfig{{Link: p}}})
	if err != nil {
		return nil, err
	}
	f := local.New(m, "model that is loaded")
	i, err := mlx4.Driver(r, mlx4.Config{Firmware: fw.Config{ResetDelay: time.Nanosecond}}).Probe(ctx, f)
	if err != nil {
		return nil, errors.Join(err, f.Close(), m.Close())
	}
	return func(gone bool) error {
		if gone {
			f.Unplug()
		}
		return errors.Join(i.Remove(gone), m.Close())
	}, nil
}

// newMLX4Adapter returns adapter i, on ports that it takes over.
func newMLX4Adapter(ctx context.Context, o validate.Options, i int, odd bool, ports []rvt.Port) (*mlx4Adapter, error) {
	c := model.Config{Rand: seeded(o.Seed, i), NodeDescription: description, GUID: guid + ci.GUID(i)<<8, Windows2: true}
	if odd {
		c.GUID = oddGUID(i)
	}
	for _, p := range ports {
		c.Ports = append(c.Ports, model.PortConfig{Link: p})
	}
	config := mlx4.Config{HardwareAgents: o.Link == "fabric"}
	if o.Link == "ethernet" {
		version, _ := roceVersion(o) // checked by checkMLX4
		c.Pro = version == ci.GIDRoCEv2
		for k := range ports {
			table := []ci.GIDEntry{{GID: mlx4GID(2*k + i), Type: version}}
			if odd {
				table = append(table, make([]ci.GIDEntry, 2)...) // empty ones
			}
			config.GIDs = append(config.GIDs, table)
		}
	}
	m, err := model.New(c)
	if err != nil {
		return nil, err
	}
	a := &mlx4Adapter{m: m}
	if a.f, a.stop, err = mlx4Buses[o.Values["bus"]](ctx, m, i); err != nil {
		return nil, errors.Join(err, a.close())
	}
	config.Firmware = fw.Config{ResetDelay: time.Nanosecond}
	if a.h, err = mlx4.New(ctx, a.f, config); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// mlx4GID returns the link-local GID of the port with mlx4MAC(number).
func mlx4GID(number int) ci.GID {
	return ci.GID{0: 0xfe, 1: 0x80, 9: 0xdd, 10: 0xcd, 11: 0xff, 12: 0xfe, 15: byte(number + 1)}
}
