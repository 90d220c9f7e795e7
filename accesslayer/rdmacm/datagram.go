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
	"ciddk/ci"
)

// DatagramConfig describes a Datagram. The zero value is good for use.
type DatagramConfig struct {
	// ID is the partition, traffic class and so on. The port space is UDP.
	ID IDConfig
	// Depth is how many datagrams may wait for the application, and how many may be under way; more that arrive are dropped. 0: 32. At most 8192.
	// A Datagram holds a buffer of the port's MTU for each.
	Depth int
	// Private goes to programs that look the endpoint up, up to AnswerLen bytes.
	Private []byte
}

// Datagram is an endpoint for datagrams: messages up to the port's MTU that may be lost or arrive in another order. Peers find it by its address and
// port (SIDR), and it answers senders without looking them up. All methods may be called concurrently.
type Datagram struct {
	e     engine
	id    *ID // of the QP
	ln    *IDListener
	link  ci.Link
	mtu   int
	priv  []byte
	stop  context.CancelFunc
	done  chan struct{} // closed when answer has returned
	avsMu sync.Mutex
	avs   map[ci.AVAttr]*accesslayer.AV

	closing  sync.Once
	closeErr error
}

// grhLen is the length of what precedes the data of a datagram in its receive buffer: a GRH, or an IPv4 header in its last 20 bytes.
const grhLen = 40

// maxAVs bounds the address vectors that are kept because they may be used again.
const maxAVs = 256

// ListenDatagram opens an endpoint on an address of an HCA. Port 0 is a free one: see Datagram.LocalAddr.
// Errors: EADDRINUSE, EADDRNOTAVAIL (no HCA has the address, or it is unspecified), InvalidParameter, those of ID.CreateQP, net.ErrClosed.
func (m *Manager) ListenDatagram(local netip.AddrPort, cfg DatagramConfig) (*Datagram, error) {
	const verb = "Manager.ListenDatagram"
	if cfg.Depth < 0 || cfg.Depth > maxDepth || len(cfg.Private) > AnswerLen {
		return nil, invalid(verb, "Depth is %d, want 1 to %d, or 0 for %d; Private has %d bytes, at most %d", cfg.Depth, maxDepth, defaultWindow,
			len(cfg.Private), AnswerLen)
	}
	if cfg.Depth == 0 {
		cfg.Depth = defaultWindow
	}
	cfg.ID.Space, cfg.ID.Type = UDP, ci.UD
	id, err := m.NewID(cfg.ID)
	if err != nil {
		return nil, err
	}
	d := &Datagram{id: id, priv: cfg.Private, done: make(chan struct{}), avs: map[ci.AVAttr]*accesslayer.AV{}}
	if err := d.open(local, cfg); err != nil {
		return nil, errors.Join(err, d.e.undo(id))
	}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	go d.answer(ctx)
	return d, nil
}

func (d *Datagram) open(local netip.AddrPort, cfg DatagramConfig) error {
	if err := d.id.Bind(netip.AddrPortFrom(local.Addr(), 0)); err != nil {
		return err
	}
	src, err := d.id.placed("Bind")
	if err != nil {
		return opError("listen", Addr{Space: UDP, AddrPort: local}, Addr{}, fmt.Errorf("%w: datagrams need the address of an HCA", syscall.EADDRNOTAVAIL))
	}
	attr, err := portAttr(d.id.m.al, src.Port)
	if err != nil {
		return err
	}
	d.link, d.mtu = attr.Link, attr.MTU.Bytes()
	d.e.accept = func(*ci.WC) (bool, error) { return true, nil }
	sizes := engineConfig{recvCount: cfg.Depth, recvSize: grhLen + d.mtu, sendCount: cfg.Depth, sendSize: d.mtu}
	if err := d.e.start(d.id, sizes); err != nil {
		return err
	}
	d.ln, err = d.id.m.ListenID(local, ListenIDConfig{ID: cfg.ID})
	return err
}

// answer accepts lookups until ctx ends. Each reply contains the endpoint's QP.
func (d *Datagram) answer(ctx context.Context) {
	defer close(d.done)
	for {
		id, err := d.ln.Accept(ctx)
		if err != nil {
			return
		}
		// An error means that the program has given up; it asks again.
		_ = id.Accept(ctx, ConnParam{QP: &cm.QP{Num: d.e.qp.Num()}, Private: d.priv})
		_ = id.Close()
	}
}

func (d *Datagram) fail(op string, err error) error {
	return opError(op, d.LocalAddr(), Addr{Space: UDP}, err)
}

// Lookup resolves the endpoint at an address and port, and returns the Peer to send to. Errors: those of
// ID.ResolveAddr, ResolveRoute and Connect for datagrams (*cm.LookupError, cm.ErrTimeout, the context's).
func (d *Datagram) Lookup(ctx context.Context, remote netip.AddrPort) (Peer, error) {
	id, err := d.id.m.DialID(ctx, remote, DialIDConfig{ID: d.id.cfg, Local: netip.AddrPortFrom(d.id.LocalAddr().Addr(), 0), lookup: true})
	if err != nil {
		return Peer{}, err
	}
	return id.Peer(), id.Close()
}

// MaxMessage returns the length of the longest datagram: the port's MTU.
func (d *Datagram) MaxMessage() int { return d.mtu }

// SendTo sends a datagram. It waits for a free buffer, not for the datagram to leave; b is the caller's again. Errors: InvalidParameter (longer than
// MaxMessage), those of accesslayer.PD.NewAV, the context's, ErrEnded.
func (d *Datagram) SendTo(ctx context.Context, b []byte, to Peer) error {
	return d.fail("send", d.sendTo(ctx, b, to))
}

func (d *Datagram) sendTo(ctx context.Context, b []byte, to Peer) error {
	if len(b) > d.mtu {
		return invalid("Datagram.SendTo", "a datagram of %d bytes, at most %d (the port's MTU)", len(b), d.mtu)
	}
	d.e.mu.Lock()
	i, err := d.e.acquireLocked(ctx, false, nil)
	d.e.mu.Unlock()
	if err != nil {
		return err
	}
	d.avsMu.Lock() // held until the request is posted, so that nobody destroys the address vector
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
		d.e.mu.Lock() // no request may use one that is destroyed; the caller's own buffer is not posted yet
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
		errs = append(errs, unlessGone(av.Destroy()))
	}
	clear(d.avs)
	return errors.Join(errs...)
}

// RecvFrom waits for a datagram, copies it to b, and returns its sender, to whom SendTo answers. Errors: io.ErrShortBuffer, with the length of
// the datagram, which stays; the context's; ErrEnded.
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

// sender returns where a datagram came from. Its Q_Key is the usual one of port space UDP.
func (d *Datagram) sender(wc *ci.WC, grh []byte) Peer {
	src := d.id.Source()
	p := Peer{QPN: wc.SrcQP, QKey: QKey, AV: ci.AVAttr{Port: src.Port.Num, SL: wc.SL, DLID: wc.SLID, PathBits: wc.PathBits}}
	if wc.Flags&ci.WCGRH == 0 {
		return p
	}
	p.AV.Global = true
	p.AV.GRH = ci.GRH{SGIDIndex: src.GIDIndex, HopLimit: hopLimit}
	switch {
	case d.link == ci.LinkEthernet && grh[0]>>4 != 6: // IPv4 in the last 20 bytes (annex A17)
		p.AV.GRH.DGID = gidOf(netip.AddrFrom4([4]byte(grh[32:36])))
		p.AV.GRH.TrafficClass = grh[21]
	default:
		p.AV.GRH.DGID = ci.GID(grh[8:24])
		p.AV.GRH.TrafficClass = grh[0]<<4 | grh[1]>>4
	}
	return p
}

// Join makes the endpoint a member of a multicast group; datagrams go to all members by SendTo with Group.Peer. Errors: as ID.Join.
func (d *Datagram) Join(ctx context.Context, group netip.Addr, cfg JoinConfig) (*Group, error) {
	return d.id.Join(ctx, group, cfg)
}

// LocalAddr returns the address and port at which the endpoint is found.
func (d *Datagram) LocalAddr() Addr {
	if d.ln == nil {
		return d.id.LocalAddr()
	}
	return d.ln.Addr()
}

// ID returns the underlying ID: its QP, PD and events. The Datagram closes it.
func (d *Datagram) ID() *ID { return d.id }

// Close leaves groups and releases everything; datagrams that have not left are dropped. It is idempotent; calls in progress return ErrEnded with net.ErrClosed.
// Not from a callback.
func (d *Datagram) Close() error {
	d.closing.Do(func() {
		d.stop()
		err := d.ln.Close()
		<-d.done
		err = errors.Join(err, d.e.close(net.ErrClosed))
		d.avsMu.Lock()
		defer d.avsMu.Unlock()
		d.closeErr = errors.Join(err, d.closeAVs())
	})
	return d.closeErr
}
