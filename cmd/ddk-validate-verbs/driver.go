package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"ciddk/hca/verbs"
	"ciddk/validate"
	"ciddk/validate/udpend"
)

// waivers are the cases that no device passes through libibverbs, with the reasons.
//
//go:embed waivers.json
var waivers []byte

// driver returns the driver of the machine's devices.
func driver() validate.Driver {
	list, err := validate.ParseWaivers(waivers)
	if err != nil {
		panic(err) // a test parses them
	}
	return validate.Driver{
		Waivers:     list,
		Name:        "verbs",
		Description: "RDMA devices of this machine, through libibverbs",
		Open:        open,
		CheckValues: check,
		Exclusive:   true,
		Keep:        true,
		Settings: map[string]string{
			"device": "name of the device under test; default: the only one of the machine",
			"calls":  "plain, or extended: CQs by ibv_start_poll and requests by ibv_wr_start; default: plain",
			"wire": "ADDRESS+ADDRESS of this machine that the device reaches, for the cases of the wire; " +
				"default: none, they are skipped",
			"wire-network": "network namespace of these addresses, such as /run/netns/peer: UDP port 4791 must be " +
				"free there, and Soft-RoCE has it in its own; default: that of the process",
			"peer": "name of a second device that reaches it; default: none, the device reaches itself",
		},
	}
}

// check returns an error for a second device that is the first, and for unknown calls.
func check(o validate.Options) error {
	switch c := o.Values["calls"]; c {
	case "", "plain", "extended":
	default:
		return fmt.Errorf("--set calls=%s: want plain or extended", c)
	}
	if p := o.Values["peer"]; p != "" && p == o.Values["device"] {
		return fmt.Errorf("--set peer=%s: that is the device under test, which reaches itself without a peer", p)
	}
	return nil
}

// open opens the device, and the peer if there is one.
func open(_ context.Context, o validate.Options) (*validate.Target, error) {
	names, err := deviceNames(o)
	if err != nil {
		return nil, err
	}
	var made []*verbs.HCA
	t := &validate.Target{
		NoDaemon: "a device of the machine is not the certifier's to share",
		Close: func(context.Context) error {
			var errs []error
			for _, h := range made {
				errs = append(errs, h.Close())
			}
			return errors.Join(errs...)
		},
		Live: func() map[string]int {
			sum := map[string]int{}
			for _, h := range made {
				for k, n := range h.Live() {
					sum[k] += n
				}
			}
			return sum
		},
	}
	for _, n := range names {
		h, err := verbs.Open(verbs.Config{Device: n, Extended: o.Values["calls"] == "extended"})
		if err != nil {
			return nil, errors.Join(err, t.Close(nil))
		}
		made = append(made, h)
		t.HCAs = append(t.HCAs, h)
	}
	t.Version = made[0].Version()
	if t.Wire, err = wireEnd(o); err != nil {
		return nil, errors.Join(err, t.Close(nil))
	}
	return t, nil
}

// wireEnd returns the function that opens the certifier's end of the link, or nil if there is none.
func wireEnd(o validate.Options) (func() (validate.Wire, error), error) {
	if o.Values["wire"] == "" {
		return nil, nil
	}
	addr, other, _ := strings.Cut(o.Values["wire"], "+")
	c := udpend.Config{}
	var err, err2 error
	c.Addr, err = netip.ParseAddr(addr)
	c.Other, err2 = netip.ParseAddr(other)
	if err = errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("--set wire=%s: want ADDRESS+ADDRESS: %w", o.Values["wire"], err)
	}
	if path := o.Values["wire-network"]; path != "" {
		if c.Within, err = udpend.InNetwork(path); err != nil {
			return nil, err
		}
	}
	return func() (validate.Wire, error) { return udpend.Open(c) }, nil
}

// deviceNames returns the names of the devices to open.
func deviceNames(o validate.Options) ([]string, error) {
	names := []string{o.Values["device"]}
	if names[0] == "" {
		list, err := verbs.Devices()
		if err != nil {
			return nil, err
		}
		switch len(list) {
		case 0:
			return nil, errors.New("this machine has no RDMA devices (see `rdma link`)")
		case 1:
			names[0] = list[0]
		default:
			return nil, fmt.Errorf("this machine has %s: select one with --set device=NAME", strings.Join(list, ", "))
		}
	}
	if p := o.Values["peer"]; p != "" {
		names = append(names, p)
	}
	return names, nil
}
