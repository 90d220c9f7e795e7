package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"ciddk/ci"
	"ciddk/fabric/join"
	"ciddk/hca/reference"
	"ciddk/hca/reference/userlib"
	"ciddk/link/capture"
	"ciddk/link/capture/pcapng"
	"ciddk/link/direct"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/rvt"
	"ciddk/validate"
	"ciddk/validate/udpend"
)

// description is the node description of the HCAs, which a vendor command returns.
const description = "ddk-validate reference HCA"

// openReference opens two software HCAs that reach each other over the link in the options.
func openReference(_ context.Context, o validate.Options) (*validate.Target, error) {
	l, err := links[o.Link](o)
	if err != nil {
		return nil, err
	}
	t := &validate.Target{
		VendorCall:  &validate.VendorCommand{Command: reference.VendorDescription, Want: []byte(description)},
		UserLibrary: userlib.New(),
		Version:     "the kit's own", Capture: noCapture, Wire: l.end, NoMulticast: l.noGroups,
		Lossless: l.probe == nil, Unreachable: l.nobody,
	}
	if l.probe != nil {
		t.Probe = l.probe.run
	}
	if o.Impair {
		imp := newImpairer()
		l.wrap(imp.wrap)
		t.Impair = imp.set
	}
	if o.Capture { // outside of the impairment, so that the capture includes dropped packets
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
	var made []*reference.HCA
	t.Close = func(context.Context) error {
		var errs []error
		for _, h := range made {
			errs = append(errs, h.Close(), h.Unplug()) // a wrong driver may have left its CA open
		}
		if l.close != nil {
			errs = append(errs, l.close())
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
	t.Counters = func() (list []map[string]uint64) {
		for _, h := range made {
			list = append(list, h.Counters())
		}
		return list
	}
	for i := range l.ports {
		ports, err := l.open(i)
		if err != nil {
			return nil, errors.Join(err, t.Close(nil))
		}
		c := reference.Config{GUID: guid + ci.GUID(i)<<8, Ports: ports, Rand: seeded(o.Seed, i),
			NodeDescription: description}
		if l.odd {
			c.GUID, c.Attr = oddGUID(i), oddLimits
			if l.claims == 0 || l.claims.Has(ci.CapSystemGUID) {
				c.Attr.SystemGUID = oddSystemGUID(i)
			}
		}
		if l.legal != nil {
			l.legal.draw(&c)
		}
		c.Caps = l.claims
		if f, ok := ports[0].(*join.Port); ok { // the fabric's agent answers for the node, which the topology describes
			n := f.NodeInfo()
			c.GUID, c.Attr.VendorID, c.Attr.DeviceID = 0, n.VendorID, n.DeviceID
			c.Attr.Revision, c.Attr.SystemGUID = uint16(n.Revision), ci.GUID(n.SystemGUID)
		}
		h, err := reference.New(c)
		if err != nil {
			return nil, errors.Join(err, t.Close(nil))
		}
		made = append(made, h)
		t.HCAs = append(t.HCAs, h)
	}
	if t.SetLink = l.setLink; t.SetLink == nil {
		t.SetLink = func(up bool) error { return made[0].SetLink(1, up) }
	}
	t.Load = func(_ context.Context, r ci.Registrar) (func(bool) error, error) { return loadReference(o, r) }
	return t, nil
}

// loadedGUID returns the GUID of adapters that validate.Target.Load makes.
func loadedGUID() ci.GUID { return guid + 0xff<<8 }

// loadReference implements validate.Target.Load. The device of a software adapter is its port. It cannot be pulled out.
func loadReference(o validate.Options, r ci.Registrar) (unload func(gone bool) error, err error) {
	p, err := direct.New(new(direct.Link), direct.Config{})
	if err != nil {
		return nil, err
	}
	h, err := reference.New(reference.Config{GUID: loadedGUID(), Ports: []rvt.Port{p}, Rand: seeded(o.Seed, 2)})
	if err != nil {
		return nil, err
	}
	if err := r.Register(h); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return func(bool) error { return errors.Join(r.Deregister(loadedGUID()), h.Close()) }, nil
}

// noCapture implements validate.Target.Capture for a target without captures.
func noCapture(string) (func() error, error) {
	return nil, errors.New("the target was not opened with Options.Capture")
}

// openPort opens the port of an HCA.
type openPort func() (rvt.Port, error)

// linkage describes the link of a target.
type linkage struct {
	ports []openPort // one for each HCA
	// second has the second port of each HCA, or is nil.
	second []openPort
	odd    bool                          // the HCAs have odd values
	legal  *legal                        // draws the HCAs; nil: they are the kit's own
	claims ci.Caps                       // limits the capabilities that the HCAs claim; 0: all of them
	end    func() (validate.Wire, error) // opens the certifier's end; nil if there is no address for it
	// noGroups is the value of validate.Target.NoMulticast.
	noGroups string
	// setLink implements validate.Target.SetLink for a link that needs more than its port. It may be nil.
	setLink func(up bool) error
	close   func() error
	probe   *linkProbe // nil for a link in memory, which cannot lose packets
	nobody  ci.GID     // an address at which nothing receives; zero: none that the network reports
}

// wrap replaces all ports.
func (l *linkage) wrap(f func(openPort) openPort) {
	for _, list := range [][]openPort{l.ports, l.second} {
		for i := range list {
			list[i] = f(list[i])
		}
	}
}

// open opens the ports of HCA i.
func (l *linkage) open(i int) (ports []rvt.Port, err error) {
	for _, list := range [][]openPort{l.ports, l.second} {
		if list == nil {
			continue
		}
		p, err := list[i]()
		if err != nil {
			for _, p := range ports {
				err = errors.Join(err, p.Close())
			}
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// links has a function for each link of the driver.
var links = map[string]func(validate.Options) (linkage, error){
	"udp": udpLink, "direct": directLink, "network": networkLink, "fabric": fabricLink,
}

// checkValues returns an error for a setting that the link does not have, or for an invalid value.
func checkValues(o validate.Options) error {
	has := map[string][]string{
		"udp": {"ip", "loopback", "port", "privileged", "sources"}, "network": {"claims", "ip", "legal", "odd"},
		"direct": {"agents", "claims", "legal", "odd"}, "fabric": {"fabric", "nodes"},
	}
	_, version := version(o)
	_, port := udpPort(o)
	_, privileged := privileged(o)
	_, sources := sources(o)
	_, agents := agents(o)
	_, odd := odd(o)
	_, legal := legalAdapter(o)
	_, claims := claims(o)
	_, _, nodes := fabricNodes(o)
	_, near := near(o)
	return cmp.Or(onlyFor(o, has[o.Link]...), version, port, privileged, sources, near, agents, odd, legal, claims,
		nodes)
}

// onlyFor returns an error for a setting that is not in names.
func onlyFor(o validate.Options, names ...string) error {
	for k := range o.Values {
		if !slices.Contains(names, k) {
			return fmt.Errorf("--set %s is not for the link %s, which has: %s",
				k, o.Link, cmp.Or(strings.Join(names, ", "), "no settings"))
		}
	}
	return nil
}

// directLink returns a link in this process with InfiniBand as its link layer. The HCAs pass packets to each other
// without encoding them. The certifier's end has encoded packets.
func directLink(o validate.Options) (l linkage, err error) {
	c, err := agents(o)
	if err != nil {
		return l, err
	}
	if l.claims, err = claims(o); err != nil {
		return l, err
	}
	if l.odd, err = odd(o); err != nil {
		return l, err
	}
	if l.legal, err = legalAdapter(o); err != nil {
		return l, err
	}
	if l.legal != nil {
		c.MTU = l.legal.mtu()
	}
	d, d2 := new(direct.Link), new(direct.Link)
	for i := range 2 {
		first := c
		if l.odd {
			var second direct.Config
			first, second = oddPorts(c, i)
			l.second = append(l.second, func() (rvt.Port, error) { return direct.New(d2, second) })
		}
		l.ports = append(l.ports, func() (rvt.Port, error) { return direct.New(d, first) })
	}
	l.end = func() (validate.Wire, error) {
		e, err := d.End(direct.Config{LID: endLID})
		if err != nil {
			return nil, err
		}
		return directEnd{e}, nil
	}
	return l, nil
}

// networkLink returns a RoCEv2 network in this process. The certifier sees whole packets.
func networkLink(o validate.Options) (l linkage, err error) {
	v6, err := version(o)
	if err != nil {
		return l, err
	}
	if l.claims, err = claims(o); err != nil {
		return l, err
	}
	if l.odd, err = odd(o); err != nil {
		return l, err
	}
	if l.legal, err = legalAdapter(o); err != nil {
		return l, err
	}
	var net sim.NetworkConfig
	most := mtu
	if l.legal != nil {
		net.Latency, most = l.legal.latency(), l.legal.mtu()
	}
	n := sim.NewNetwork(net)
	for i := range 2 {
		c := sim.Config{Addr: privateAddr(v6, i), MTU: most}
		if l.odd {
			c.Addrs = oddAddrs(v6, i)
			second := sim.Config{Addr: privateAddr(v6, 8+i), MTU: ci.MTU2048}
			l.second = append(l.second, func() (rvt.Port, error) { return sim.New(n, second) })
		}
		l.ports = append(l.ports, func() (rvt.Port, error) { return sim.New(n, c) })
	}
	l.end = func() (validate.Wire, error) {
		e, err := n.End(privateAddr(v6, 2))
		if err != nil {
			return nil, err
		}
		return networkEnd{e, privateAddr(v6, 2), privateAddr(v6, 3)}, nil
	}
	return l, nil
}

// privateAddr returns address i of a private network: 0 and 1 are the HCAs', 2 and 3 the certifier's.
func privateAddr(v6 bool, i int) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0xdd, 15: byte(i + 1)})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
}

// seeded returns the source of keys and QPNs of HCA i. It follows from the seed and differs between the HCAs.
func seeded(seed uint64, i int) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	key[31] = byte(i)
	return rand.NewChaCha8(key)
}

// udpLink returns a link over UDP sockets on loopback. It chooses addresses that no other worker uses, and that other
// runs are unlikely to use. Linux has all of 127/8, so that the UDP port of RoCEv2 can be used. Over IPv6, Linux has as
// many addresses in a network namespace, which takes CAP_SYS_ADMIN. Otherwise there is one loopback address. One HCA
// then talks to itself on its own UDP port, and the certifier has no address.
func udpLink(o validate.Options) (l linkage, err error) {
	port, err := udpPort(o)
	if err != nil {
		return l, err
	}
	v6, err := version(o)
	if err != nil {
		return l, err
	}
	privileged, err := privileged(o)
	if err != nil {
		return l, err
	}
	sources, err := sources(o)
	if err != nil {
		return l, err
	}
	near, err := near(o)
	if err != nil {
		return l, err
	}
	var addrs []netip.Addr                            // first those of the HCAs, then those of the certifier
	open := func(f func() error) error { return f() } // in the network of the process
	if v6 {
		addrs = []netip.Addr{netip.IPv6Loopback()}
		if space, err := space6(); err == nil {
			addrs, open = addrs6(), space.do
		} else if runtime.GOOS == "linux" {
			l.noGroups = "Linux has no route for IPv6 groups on loopback, " +
				"and a network namespace to add one takes CAP_SYS_ADMIN"
		}
	} else {
		for i := range 4 {
			addrs = append(addrs, loopback(o, i))
		}
		if runtime.GOOS != "linux" {
			addrs = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
		}
	}
	if len(addrs) == 1 && port == 0 {
		port = uint16(20000 + (o.Run%500)*64 + o.Worker%64)
	}
	for _, a := range addrs[:min(2, len(addrs))] {
		c := udp.Config{Addr: a, Port: port, MTU: mtu, Privileged: privileged, Within: open, SourcePorts: sources,
			Near: near}
		l.ports = append(l.ports, func() (rvt.Port, error) { return udp.New(c) })
	}
	l.probe = newLinkProbe(addrs[len(addrs)-1], open)
	if len(addrs) == 4 {
		if runtime.GOOS == "linux" { // other systems have no reports of a single socket
			l.nobody = addrs[3].As16()
		}
		l.end = func() (validate.Wire, error) {
			return udpend.Open(udpend.Config{Addr: addrs[2], Other: addrs[3], Port: port, Headers: privileged,
				Within: open})
		}
	}
	return l, nil
}

// addrs6 returns the IPv6 addresses of the link udp in a network namespace: those of the HCAs and of the certifier.
func addrs6() (list []netip.Addr) {
	for i := range 4 {
		list = append(list, privateAddr(true, i))
	}
	return list
}

// version returns whether the setting ip is 6.
func version(o validate.Options) (v6 bool, err error) {
	switch v := o.Values["ip"]; v {
	case "", "4", "6":
		return v == "6", nil
	default:
		return false, fmt.Errorf("--set ip=%s: want 4 or 6", v)
	}
}

// near returns whether the setting loopback is direct.
func near(o validate.Options) (bool, error) {
	switch v := o.Values["loopback"]; v {
	case "", "wire", "direct":
		return v == "direct", nil
	default:
		return false, fmt.Errorf("--set loopback=%s: want wire or direct", v)
	}
}

// privileged returns the setting privileged.
func privileged(o validate.Options) (bool, error) {
	switch v := o.Values["privileged"]; v {
	case "", "0", "1":
		return v == "1", nil
	default:
		return false, fmt.Errorf("--set privileged=%s: want 0 or 1", v)
	}
}

// agents returns the configuration of a port on the link direct for the setting agents.
func agents(o validate.Options) (direct.Config, error) {
	c := direct.Config{MTU: mtu}
	switch v := o.Values["agents"]; v {
	case "", "kit":
	case "passing":
		c.PassConsumed = true
		fallthrough
	case "hardware":
		c.HardwareAgents = true
	default:
		return c, fmt.Errorf("--set agents=%s: want kit, hardware or passing", v)
	}
	return c, nil
}

// sources returns the setting sources, or 0 if it is not set.
func sources(o validate.Options) (int, error) {
	v := o.Values["sources"]
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 64 {
		return 0, fmt.Errorf("--set sources=%s: want 1 to 64", v)
	}
	return n, nil
}

// udpPort returns the setting port, or 0 if it is not set.
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

// loopback returns address i, 0 to 3, of a worker: 0 and 1 are the HCAs', 2 and 3 the certifier's. Runs have process
// ids as numbers, so that 64,000 consecutive ones have addresses of their own.
func loopback(o validate.Options, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + o.Run/256%250), byte(o.Run), byte(1 + o.Worker%63*4 + i)})
}

// guid is the GUID of the first HCA. It is set so that reports of two runs can be compared; the default would follow
// from the address.
const guid ci.GUID = 0x02ddcd0000000100

// mtu is the path MTU. With 1024, messages of several packets are small.
const mtu = ci.MTU1024
