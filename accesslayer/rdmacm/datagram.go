package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
)

// DatagramConfig describes a Datagram. The zero value is ready for use.
type DatagramConfig struct {
	// ID describes the partition, traffic class and so on. The port space is UDP.
	ID cmid.IDConfig
	// Depth is the number of datagrams that may wait for the application, and the number of sends that may be in
	// progress; more that arrive are dropped. 0: 32. At most 8192. A Datagram allocates a buffer of the port's MTU for
	// each.
	Depth int
	// Private goes to programs that look up the endpoint, up to AnswerLen bytes.
	Private []byte
}

// Datagram is an endpoint for datagrams: messages up to the port's MTU that may be lost or arrive in another order.
// Peers find it by its address and port (SIDR). It can reply to senders without a lookup. It has no goroutine. All
// methods may be called concurrently.
type Datagram struct {
	e    engine
	id   *cmid.ID // of the QP
	cfg  cmid.IDConfig
	ln   *cmid.Listener
	attr *ci.PortAttr // of the port, when the endpoint was opened
	mtu  int
	priv []byte
	// requests are the lookups of peers.
	requests *cmid.EventChannel

	avsMu sync.Mutex
	avs   map[ci.AVAttr]*accesslayer.AV

	closing  sync.Once
	closeErr error
}

// grhLen is the length of what precedes the data in the receive buffer of a datagram: a GRH, or an IPv4 header in its
// last 20 bytes.
const grhLen = 40

// maxAVs bounds the address vectors that are kept for later datagrams.
const maxAVs = 256

// ListenDatagram opens an endpoint on an address of an HCA. Port 0 is a free port: see Datagram.LocalAddr.
// Errors: EADDRINUSE, EADDRNOTAVAIL (no HCA has the address, or it is unspecified), InvalidParameter, those of
// ID.CreateQP, net.ErrClosed.
func (m *Manager) ListenDatagram(local netip.AddrPort, cfg DatagramConfig) (*Datagram, error) {
	const verb = "Manager.ListenDatagram"
	if cfg.Depth < 0 || cfg.Depth > maxDepth || len(cfg.Private) > cmid.AnswerLen {
		return nil, failure.Invalid(verb,
			"Depth is %d, want 1 to %d, or 0 for %d; Private has %d bytes, want at most %d",
			cfg.Depth, maxDepth, defaultWindow, len(cfg.Private), cmid.AnswerLen)
	}
	if cfg.Depth == 0 {
		cfg.Depth = defaultWindow
	}
	cfg.ID.Space, cfg.ID.Type, cfg.ID.Events = cmid.UDP, ci.UD, nil
	id, err := m.ids.NewID(cfg.ID)
	if err != nil {
		return nil, err
	}
	d := &Datagram{id: id, cfg: cfg.ID, priv: cfg.Private, avs: map[ci.AVAttr]*accesslayer.AV{}}
	d.requests = cmid.NewEventChannel(d.answer)
	if err := d.open(local, cfg); err != nil {
		return nil, errors.Join(err, d.e.undo(id))
	}
	return d, nil
}

func (d *Datagram) open(local netip.AddrPort, cfg DatagramConfig) error {
	if err := d.id.Bind(netip.AddrPortFrom(local.Addr(), 0)); err != nil {
		return err
	}
	src := d.id.Source()
	if src.Port.Num == 0 {
		err := fmt.Errorf("%w: datagrams need the address of an HCA", syscall.EADDRNOTAVAIL)
		return failure.Op("listen", Addr{Space: cmid.UDP, AddrPort: local}, Addr{}, err)
	}
	attr, err := address.PortAttr(d.id.Manager().AL(), src.Port)
	if err != nil {
		return err
	}
	d.attr, d.mtu = attr, attr.MTU.Bytes()
	d.e.accept = func(*ci.WC) (bool, error) { return true, nil }
	sizes := engineConfig{recvCount: cfg.Depth, recvSize: grhLen + d.mtu, sendCount: cfg.Depth, sendSize: d.mtu}
	if err := d.e.start(d.id, sizes); err != nil {
		return err
	}
	cfg.ID.Events = d.requests
	d.ln, err = d.id.Manager().Listen(local, cmid.ListenConfig{ID: cfg.ID})
	return err
}

// answer accepts the lookups that are queued. Each reply contains the endpoint's QP.
func (d *Datagram) answer() {
	for {
		e, ok := d.requests.TryNext()
		if !ok {
			return
		}
		e.Ack()
		if e.Type != cmid.EventConnectRequest {
			continue
		}
		// After an error the peer repeats its request.
		_ = e.ID.StartAccept(cmid.ConnParam{QP: &cm.QP{Num: d.e.qp.Num()}, Private: d.priv})
		_ = e.ID.Close()
	}
}

func (d *Datagram) fail(op string, err error) error {
	return failure.Op(op, d.LocalAddr(), Addr{Space: cmid.UDP}, err)
}

// Lookup looks up the endpoint at an address and port, and returns the Peer to send to. Errors: those of
// ID.ResolveAddr, ResolveRoute and Connect for datagrams (*cm.LookupError, cm.ErrTimeout, the context's).
func (d *Datagram) Lookup(ctx context.Context, remote netip.AddrPort) (Peer, error) {
	cfg := cmid.DialConfig{ID: d.cfg, Local: netip.AddrPortFrom(d.id.LocalAddr().Addr(), 0), NoQP: true}
	id, err := d.id.Manager().Dial(ctx, remote, cfg)
	if err != nil {
		return Peer{}, err
	}
	return id.Peer(), id.Close()
}

// MaxMessage returns the length of the longest datagram: the port's MTU. A service level may have a smaller one.
func (d *Datagram) MaxMessage() int { return d.mtu }

// SendTo sends a datagram. It waits for a free buffer, but not until the datagram is sent; the caller may change b when
// it returns. Errors: InvalidParameter (longer than MaxMessage), those of accesslayer.PD.NewAV, the context's,
// ErrEnded.
func (d *Datagram) SendTo(ctx context.Context, b []byte, to Peer) error {
	return d.fail("send", d.sendTo(ctx, b, to))
}

func (d *Datagram) sendTo(ctx context.Context, b []byte, to Peer) error {
	if most := d.attr.MTUOf(to.AV.SL).Bytes(); len(b) > most {
		return failure.Invalid("Datagram.SendTo", "the datagram has %d bytes, want at most %d (the port's MTU)",
			len(b), most)
	}
	d.e.mu.Lock()
	i, err := d.e.acquireLocked(ctx, false, nil)
	d.e.mu.Unlock()
	if err != nil {
		return err
	}
	d.avsMu.Lock() // held until the request is posted, so that the address vector is not destroyed before
	defer d.avsMu.Unlock()
	av, err := d.av(ctx, to.AV)
	if err != nil {
		d.e.mu.Lock()
		d.e.inFlight--
		d.e.mu.Unlock()
		d.e.release(i)
		return err
	}
	copy(d.e.sends[i].data, b)
	return d.e.post(i, ci.SendWR{Op: ci.OpSend, To: ci.Dest{AV: av, QPN: to.QPN, QKey: to.QKey}}, len(b))
}

// av returns an address vector; avsMu is held.
func (d *Datagram) av(ctx context.Context, attr ci.AVAttr) (*accesslayer.AV, error) {
	if av := d.avs[attr]; av != nil {
		return av, nil
	}
	if len(d.avs) >= maxAVs {
		// No request may use an address vector that is destroyed. The caller's own buffer is not posted yet.
		d.e.mu.Lock()
		err := d.e.until(ctx, &d.e.senders, func() bool { return d.e.inFlight <= 1 })
		d.e.mu.Unlock()
		if err == nil {
			err = d.closeAVs()
		}
		if err != nil {
			return nil, err
		}
	}
	pd, err := d.id.PD()
	if err != nil {
		return nil, err
	}
	av, err := pd.NewAV(attr)
	if err == nil {
		d.avs[attr] = av
	}
	return av, err
}

func (d *Datagram) closeAVs() error {
	var errs []error
	for _, av := range d.avs {
		errs = append(errs, failure.UnlessGone(av.Destroy()))
	}
	clear(d.avs)
	return errors.Join(errs...)
}

// RecvFrom waits for a datagram, copies it to b, and returns its sender, which SendTo accepts as destination.
// Errors: io.ErrShortBuffer, with the length of the datagram, which stays in the queue; the context's; ErrEnded.
func (d *Datagram) RecvFrom(ctx context.Context, b []byte) (int, Peer, error) {
	d.e.mu.Lock()
	if err := d.e.until(ctx, &d.e.readers, func() bool { return d.e.arrived.size > 0 }); err != nil {
		d.e.mu.Unlock()
		return 0, Peer{}, d.fail("receive", err)
	}
	a := *d.e.arrived.peek()
	n := int(a.wc.Length) - grhLen
	if n > len(b) {
		d.e.mu.Unlock()
		return n, Peer{}, d.fail("receive", io.ErrShortBuffer)
	}
	d.e.arrived.pop()
	d.e.mu.Unlock()
	data := d.e.recvs[a.buffer].data
	from := d.sender(&a.wc, data[:grhLen])
	copy(b, data[grhLen:grhLen+n])
	d.e.postRecv(a.buffer)
	return n, from, nil
}

// sender returns the sender of a datagram. Its Q_Key is assumed to be that of port space UDP.
func (d *Datagram) sender(wc *ci.WC, grh []byte) Peer {
	src := d.id.Source()
	p := Peer{QPN: wc.SrcQP, QKey: cmid.QKey}
	p.AV = ci.AVAttr{Port: src.Port.Num, SL: wc.SL, DLID: wc.SLID, PathBits: wc.PathBits}
	if wc.Flags&ci.WCGRH == 0 {
		return p
	}
	p.AV.Global = true
	p.AV.GRH = ci.GRH{SGIDIndex: src.GIDIndex, HopLimit: address.HopLimit}
	switch {
	case d.attr.Link == ci.LinkEthernet && grh[0]>>4 != 6: // IPv4 in the last 20 bytes (annex A17)
		p.AV.GRH.DGID = address.GIDOf(netip.AddrFrom4([4]byte(grh[32:36])))
		p.AV.GRH.TrafficClass = grh[21]
	default:
		p.AV.GRH.DGID = ci.GID(grh[8:24])
		p.AV.GRH.TrafficClass = grh[0]<<4 | grh[1]>>4
	}
	return p
}

// Join makes the endpoint a member of a multicast group. SendTo with Group.Peer sends to all members. Errors: as
// ID.Join.
func (d *Datagram) Join(ctx context.Context, group netip.Addr, cfg JoinConfig) (*Group, error) {
	return d.id.Join(ctx, group, cfg)
}

// LocalAddr returns the address and port at which peers find the endpoint.
func (d *Datagram) LocalAddr() Addr {
	if d.ln == nil {
		return d.id.LocalAddr()
	}
	return d.ln.Addr()
}

// ID returns the underlying ID: its QP, PD and events. The Datagram closes it.
func (d *Datagram) ID() *cmid.ID { return d.id }

// Close leaves groups and releases all resources. Datagrams that were not sent yet are dropped. It is idempotent. Calls
// in progress return ErrEnded with net.ErrClosed. Do not call it from a callback.
func (d *Datagram) Close() error {
	d.closing.Do(func() {
		err := errors.Join(d.ln.Close(), d.requests.Close(), d.e.close(net.ErrClosed))
		d.avsMu.Lock()
		defer d.avsMu.Unlock()
		d.closeErr = errors.Join(err, d.closeAVs())
	})
	return d.closeErr
}
