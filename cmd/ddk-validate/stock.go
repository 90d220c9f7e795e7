package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/examples/perftest/exchange"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/suite/wiresuite"
	"ciddk/validate/udpend"
	"ciddk/wire"
)

// stockDriver is the driver of the command wire: adapters that run a stock program.
func stockDriver() validate.Driver {
	return validate.Driver{
		Name:        "peer",
		Description: "an adapter that the kit does not drive, on which a stock program runs (command wire)",
		Open:        openStock,
		CheckValues: func(o validate.Options) error { _, err := stockOf(o); return err },
		Settings: map[string]string{
			"peer":    "address of the adapter",
			"local":   "address to send from; default: the one from which the system reaches the peer",
			"other":   "second address, for packets from a wrong source; default: none",
			"program": "program that runs there: " + strings.Join(slices.Sorted(maps.Keys(programs)), ", "),
			"port":    "port on which the program listens; default: its own",
			"size":    "bytes that the program was started with (-s; rping: -S); default: its own",
			"mtu":     "path MTU that the program was started with; default: 1024",
		},
		Exclusive: true,
	}
}

// stock is an adapter that the kit does not drive. It implements wiresuite.Stock.
type stock struct {
	ci.UnimplementedHCA
	ci.UnimplementedCA
	peer, local, other netip.Addr
	port               uint16
	size               int
	mtu                ci.MTU
	program            wiresuite.Program
}

// programs are the stock programs.
var programs = map[string]struct {
	port uint16
	size int
	make func(*stock) wiresuite.Program
}{
	"rping": {7174, 64, func(s *stock) wiresuite.Program {
		return wiresuite.Program{Plain: wire.RCWriteOnly, Recvs: 1, RecvLen: 16, AskLen: s.size,
			Service: mad.PortSpaceTCP.ServiceID(s.port), Ask: func(m ci.Remote, n int) []byte {
				b := binary.BigEndian.AppendUint64(nil, m.Addr)
				b = binary.BigEndian.AppendUint32(b, uint32(m.RKey))
				return binary.BigEndian.AppendUint32(b, uint32(n))
			}}
	}},
	"ib_send_bw": {18515, 65536, func(s *stock) wiresuite.Program {
		return wiresuite.Program{Plain: wire.RCWriteOnly, Recvs: 512, RecvLen: s.size, Dial: s.dialPerftest,
			IsDeaf: true}
	}},
	"ib_write_bw": {18515, 65536, func(s *stock) wiresuite.Program {
		return wiresuite.Program{Plain: wire.RCWriteOnly, Bytes: s.size, Dial: s.dialPerftest}
	}},
	"ib_read_bw": {18515, 65536, func(s *stock) wiresuite.Program {
		return wiresuite.Program{Plain: wire.RCReadRequest, Bytes: s.size, Dial: s.dialPerftest}
	}},
	"ib_atomic_bw": {18515, 8, func(s *stock) wiresuite.Program {
		return wiresuite.Program{Plain: wire.RCFetchAdd, Bytes: s.size, Dial: s.dialPerftest}
	}},
	"rc_pingpong": {18515, 4096, func(s *stock) wiresuite.Program {
		return wiresuite.Program{Plain: wire.RCSendOnly, Recvs: 500, RecvLen: s.size, Dial: s.dialPingpong,
			IsDeaf: true, Ask: func(ci.Remote, int) []byte { return make([]byte, 1) }}
	}},
}

// stockOf returns the adapter that the values describe.
func stockOf(o validate.Options) (*stock, error) {
	v := func(key string) string { return o.Values[key] }
	p, ok := programs[v("program")]
	if !ok {
		return nil, fmt.Errorf("program %q: want one of %s", v("program"),
			strings.Join(slices.Sorted(maps.Keys(programs)), ", "))
	}
	s := &stock{port: p.port, size: p.size, mtu: ci.MTU1024}
	var errs []error
	for key, to := range map[string]*netip.Addr{"peer": &s.peer, "local": &s.local, "other": &s.other} {
		if v(key) == "" {
			continue
		}
		a, err := netip.ParseAddr(v(key))
		errs, *to = append(errs, err), a.Unmap()
	}
	if v("port") != "" {
		n, err := strconv.ParseUint(v("port"), 10, 16)
		errs, s.port = append(errs, err), uint16(n)
	}
	if v("size") != "" {
		n, err := strconv.Atoi(v("size"))
		if err == nil && (n < 1 || n > 1<<20) {
			err = fmt.Errorf("size %d: want 1 to %d", n, 1<<20)
		}
		errs, s.size = append(errs, err), n
	}
	if v("mtu") != "" {
		i := slices.Index([]string{"256", "512", "1024", "2048", "4096"}, v("mtu"))
		if i < 0 {
			errs = append(errs, fmt.Errorf("mtu %s: want 256, 512, 1024, 2048 or 4096", v("mtu")))
		}
		s.mtu = ci.MTU256 + ci.MTU(i)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if !s.peer.IsValid() || s.peer.IsUnspecified() || s.peer.IsMulticast() {
		return nil, fmt.Errorf("peer %q: want the IP address of an adapter", v("peer"))
	}
	if s.local.IsValid() && s.local.Is4() != s.peer.Is4() {
		return nil, fmt.Errorf("local %v and peer %v are of different IP versions", s.local, s.peer)
	}
	s.program = p.make(s)
	s.program.Name = v("program")
	return s, nil
}

func openStock(_ context.Context, o validate.Options) (*validate.Target, error) {
	s, err := stockOf(o)
	if err != nil {
		return nil, err
	}
	if !s.local.IsValid() {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.peer, wire.RoCEv2Port)))
		if err != nil {
			return nil, fmt.Errorf("no route to %v (--local names the address to send from): %w", s.peer, err)
		}
		s.local = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
	open := func() (validate.Wire, error) {
		w, err := udpend.Open(udpend.Config{Addr: s.local, Other: s.other})
		if err != nil {
			err = fmt.Errorf("%w (another program, or Linux's Soft-RoCE, may have the port)", err)
		}
		return w, err
	}
	return &validate.Target{HCAs: []ci.HCA{s}, Wire: open, Version: s.program.Name + " at " + s.peer.String(),
		Probe: func(ctx context.Context) (int, int, error) {
			w, err := open()
			if err != nil {
				return 0, 0, err
			}
			sent, lost, err := wiresuite.Probe(ctx, w, s.peer.As16())
			return sent, lost, errors.Join(err, w.Close())
		}}, nil
}

// Program implements wiresuite.Stock.
func (s *stock) Program() *wiresuite.Program { return &s.program }

// Info implements ci.HCA. The vendor is not known.
func (s *stock) Info() ci.HCAInfo {
	return ci.HCAInfo{GUID: 1, VendorID: 0xffffff, Version: ci.InterfaceVersion}
}

// OpenCA implements ci.HCA.
func (s *stock) OpenCA(ci.GUID, func(ci.Event), any) (ci.CA, error) { return s, nil }

// Query implements ci.CA. It returns what cases assume about an adapter that cannot be queried.
func (s *stock) Query() (*ci.CAAttr, error) {
	port := ci.PortAttr{Num: 1, GUID: 1, Link: ci.LinkEthernet, State: ci.PortActive, PhysState: 5, MTU: s.mtu,
		MaxMTU: s.mtu, MaxMsgSize: 1 << 31, PKeys: []ci.PKey{0xffff},
		GIDs: []ci.GIDEntry{{GID: s.peer.As16(), Type: ci.GIDRoCEv2}}}
	return &ci.CAAttr{GUID: 1, MaxPDs: 1, MaxQPs: 1, MaxWRs: 16, MaxSGEs: 1, MaxReadSGEs: 1, MaxCQs: 1, MaxCQEs: 32,
		MaxMRs: 1, MaxMRSize: 1 << 30, MaxRespResPerQP: 1, MaxInitDepthPerQP: 1, MaxRespRes: 1,
		PageSizes: []uint64{4096}, Ports: []ci.PortAttr{port}}, nil
}

// Modify implements ci.CA.
func (s *stock) Modify(uint8, ci.PortField, ci.PortModify) error {
	return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported}
}

// AllocatePD implements ci.CA.
func (s *stock) AllocatePD(ci.PDType) (ci.PD, error) {
	return nil, &ci.Error{Verb: "CA.AllocatePD", Status: ci.Unsupported}
}

// Destroy implements ci.CA.
func (s *stock) Destroy() error { return nil }

// redial is the time after which a server that does not listen is tried again: it serves one client, and is started
// again.
const redial = 50 * time.Millisecond

// persist calls dial until it succeeds or ctx ends.
func persist[T any](ctx context.Context, dial func() (T, error)) (T, error) {
	for {
		c, err := dial()
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(redial):
		case <-ctx.Done():
			return c, fmt.Errorf("%w (run the program in a loop, since it serves one client)", err)
		}
	}
}

// at returns the address on which the program listens.
func (s *stock) at() string { return netip.AddrPortFrom(s.peer, s.port).String() }

// dialPerftest connects to a server of perftest.
func (s *stock) dialPerftest(ctx context.Context, ours wiresuite.Endpoint) (wiresuite.Endpoint, func() error, error) {
	theirs := wiresuite.Endpoint{}
	link, err := persist(ctx, func() (exchange.Link, error) { l, _, err := exchange.Dial(ctx, s.at()); return l, err })
	if err != nil {
		return theirs, nil, err
	}
	talk := exchange.Talk{Link: link, Client: true}
	mine := exchange.Dest{OutReads: 1, QPN: ci.QPN(ours.QPN), PSN: ci.PSN(ours.PSN), GID: ours.GID}
	var d exchange.Dest
	h, err := talk.Greet(ctx, exchange.Hello{CycleBuffer: 4096, CacheLine: 64, MTU: s.mtu})
	if err == nil && h.MTU != s.mtu {
		err = fmt.Errorf("the program has path MTU %d (--mtu)", h.MTU.Bytes())
	}
	if err == nil {
		d, err = talk.Dest(ctx, mine)
	}
	steps := 2 // after each, both sides are ready for the next one
	if s.program.Recvs > 0 {
		steps++ // receives are posted
	}
	for range steps {
		if err == nil {
			err = talk.Barrier(ctx, mine, d)
		}
	}
	if err != nil {
		return theirs, nil, errors.Join(err, link.Close())
	}
	theirs = wiresuite.Endpoint{GID: d.GID, QPN: uint32(d.QPN), PSN: uint32(d.PSN),
		Memory: ci.Remote{Addr: d.VAddr, RKey: d.RKey}}
	return theirs, link.Close, nil
}

// pingpongLen is the length of an end of a connection as the pingpong programs exchange it: LID, QPN, PSN and GID in
// hexadecimal digits with colons between them, and a NUL.
const pingpongLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1

// dialPingpong connects to a server of ibv_rc_pingpong.
func (s *stock) dialPingpong(ctx context.Context, ours wiresuite.Endpoint) (wiresuite.Endpoint, func() error, error) {
	theirs := wiresuite.Endpoint{}
	var d net.Dialer
	c, err := persist(ctx, func() (net.Conn, error) { return d.DialContext(ctx, "tcp", s.at()) })
	if err != nil {
		return theirs, nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // an error of Close says nothing more
	b := make([]byte, pingpongLen)
	_, err = fmt.Fprintf(c, "0000:%06x:%06x:%x\x00", ours.QPN, ours.PSN, ours.GID[:])
	if err == nil {
		_, err = io.ReadFull(c, b)
	}
	if err == nil {
		theirs, err = parsePingpong(b)
	}
	if err == nil {
		_, err = io.WriteString(c, "done\x00")
	}
	if err != nil {
		return theirs, nil, errors.Join(err, c.Close())
	}
	return theirs, c.Close, nil
}

// parsePingpong parses an end of a connection.
func parsePingpong(b []byte) (e wiresuite.Endpoint, err error) {
	f := strings.Split(strings.TrimSuffix(string(b), "\x00"), ":")
	if len(b) == pingpongLen && len(f) == 4 && len(f[3]) == 32 {
		var qpn, psn uint64
		var gid []byte
		qpn, err = strconv.ParseUint(f[1], 16, 24)
		psn, e2 := strconv.ParseUint(f[2], 16, 24)
		gid, e3 := hex.DecodeString(f[3])
		if err = errors.Join(err, e2, e3); err == nil {
			e.QPN, e.PSN = uint32(qpn), uint32(psn)
			copy(e.GID[:], gid)
			return e, nil
		}
	}
	return e, errors.Join(fmt.Errorf("the peer sent %q, not LID:QPN:PSN:GID: is it ibv_rc_pingpong with -g?", b), err)
}
