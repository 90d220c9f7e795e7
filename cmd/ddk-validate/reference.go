package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strconv"

	"ciddk/capture"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/validate"
	"ciddk/wire"
)

// openReference makes two software HCAs that reach each other over the link asked for.
func openReference(_ context.Context, o validate.Options) (*validate.Target, error) {
	ports, err := links[o.Link](o)
	if err != nil {
		return nil, err
	}
	t := &validate.Target{Version: "the kit's own", Capture: noCapture}
	if o.Impair {
		w := newWeather()
		for i := range ports {
			ports[i] = w.over(ports[i])
		}
		t.Impair = w.set
	}
	if o.Capture { // on top of the weather, so that it shows what that takes away
		tap := new(reference.Tap)
		for i := range ports {
			ports[i] = reference.Capture(ports[i], tap)
		}
		t.Capture = func(path string) (func() error, error) { return capture.ToFile(path, tap) }
	}
	t.Wire = endOf(o)
	var made []*reference.HCA
	t.Close = func(context.Context) error {
		var errs []error
		for _, h := range made {
			errs = append(errs, h.Close())
		}
		return errors.Join(errs...)
	}
	t.Live = func() map[string]int {
		sum := map[string]int{}
		for _, h := range made {
			for k, n := range h.Live() {
				sum[k] += n
			}
		}
		return sum
	}
	for i, p := range ports {
		h, err := reference.New(reference.Config{GUID: guid + ci.GUID(i)<<8, Ports: []reference.PortConfig{p}, Rand: chance(o.Seed, i)})
		if err != nil {
			return nil, errors.Join(err, t.Close(nil))
		}
		made = append(made, h)
		t.HCAs = append(t.HCAs, h)
	}
	return t, nil
}

// noCapture is for a target whose ports have none.
func noCapture(string) (func() error, error) {
	return nil, errors.New("the target was not opened with Options.Capture")
}

// links make the ports of a target, one for each HCA.
var links = map[string]func(validate.Options) ([]reference.PortConfig, error){"udp": udpPorts, "direct": directPorts}

// directPorts are two ports of one link in this process, of InfiniBand link layer.
func directPorts(o validate.Options) ([]reference.PortConfig, error) {
	if len(o.Values) > 0 {
		return nil, errors.New("--set is for the link udp; the direct link has nothing to set")
	}
	l := new(reference.DirectLink)
	return []reference.PortConfig{reference.Direct(l, reference.DirectConfig{MTU: mtu}), reference.Direct(l, reference.DirectConfig{MTU: mtu})}, nil
}

// chance is the source of keys and QP numbers: it follows from the seed, and differs between the HCAs.
func chance(seed uint64, i int) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	key[31] = byte(i)
	return rand.NewChaCha8(key)
}

// udpPorts chooses addresses that no other worker and hardly another run uses. Linux has all of 127/8, so that RoCEv2's own UDP port
// can be used; elsewhere there is one loopback address, and one HCA that talks to itself on a UDP port of its own.
func udpPorts(o validate.Options) ([]reference.PortConfig, error) {
	port, err := udpPort(o)
	if err != nil {
		return nil, err
	}
	if v := o.Values["ip"]; v != "" && v != "4" && v != "6" {
		return nil, fmt.Errorf("--set ip=%s: want 4 or 6", v)
	}
	if v := o.Values["privileged"]; v != "" && v != "0" && v != "1" {
		return nil, fmt.Errorf("--set privileged=%s: want 0 or 1", v)
	}
	own := 20000 + (o.Run%500)*64 + o.Worker%64
	var addrs []netip.Addr
	switch v6 := o.Values["ip"] == "6"; {
	case v6:
		addrs = []netip.Addr{netip.IPv6Loopback()}
	case runtime.GOOS == "linux":
		for i := range 2 {
			addrs = append(addrs, loopback(o, i))
		}
	default:
		addrs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	if len(addrs) == 1 && port == 0 {
		port = uint16(own)
	}
	var out []reference.PortConfig
	for _, a := range addrs {
		out = append(out, reference.UDP(reference.UDPConfig{Addr: a, Port: port, MTU: mtu, Privileged: o.Values["privileged"] == "1"}))
	}
	return out, nil
}

// udpPort is the setting port, 0 if it is left out.
func udpPort(o validate.Options) (uint16, error) {
	v := o.Values["port"]
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("--set port=%s: want 1 to 65535", v)
	}
	return uint16(n), nil
}

// loopback is address i of a worker: 0 and 1 are the HCAs', 2 and 3 the certifier's.
func loopback(o validate.Options, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + o.Run%250), byte(o.Worker), byte(i + 1)})
}

// endOf gives Target.Wire, nil where no address is left for the certifier: IPv6 has one loopback address, and so have other systems than Linux.
func endOf(o validate.Options) func() (validate.Wire, error) {
	if o.Link != "udp" || runtime.GOOS != "linux" || o.Values["ip"] == "6" {
		return nil
	}
	return func() (validate.Wire, error) {
		port, err := udpPort(o)
		if err != nil {
			return nil, err
		}
		if port == 0 {
			port = wire.RoCEv2Port
		}
		return openEnd(loopback(o, 2), loopback(o, 3), port)
	}
}

// guid of the first HCA. It does not follow from the address, as it would by itself, so that reports of two runs can be compared.
const guid ci.GUID = 0x02ddcd0000000100

// mtu of 1024 makes messages of several packets cheap to test.
const mtu = ci.MTU1024
