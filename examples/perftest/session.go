package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	syncatomic "sync/atomic"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/examples/perftest/exchange"
)

// A session is one run of the program with one peer.
type session struct {
	o     *options
	a     *adapter
	out   *printer
	talk  exchange.Talk
	peer  net.Addr
	hello exchange.Hello // the values that both sides use
	reads int            // RDMA reads and atomics at a time

	cq    *accesslayer.CQ
	wcs   []ci.WC
	recvs []ci.RecvWR // reused for each post
	lanes []*lane

	room        uint64 // bytes of a lane in either region
	source      ci.Region
	sourceOff   uint64
	sourceBytes []byte
	target      ci.Region
	targetOff   uint64
	mailbox     *mailbox // write_lat: the target's memory

	progress syncatomic.Uint64 // completions
	lost     int               // messages
	undo     undo
}

// run is the program.
func run(ctx context.Context, o *options, out io.Writer) (err error) {
	a, err := openAdapter(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.undo.close()) }()
	s := &session{o: o, a: a, out: &printer{w: out, o: o}, wcs: make([]ci.WC, 64), reads: a.reads(o)}
	defer func() { err = errors.Join(err, s.undo.close()) }()
	if err := s.setUp(ctx); err != nil {
		return err
	}
	err = s.measure(ctx)
	if err != nil && !errors.Is(err, errLost) { // the results of a run with losses are complete
		return err
	}
	return errors.Join(err, s.out.finish(s))
}

// cmListeners are the listeners of a server with -R and -z. The queue pairs of UD use another port space.
type cmListeners struct{ talk, lanes *cmid.Listener }

// setUp connects to the peer, creates the objects and connects the queue pairs.
func (s *session) setUp(ctx context.Context) error {
	var remote netip.AddrPort // with -R
	var listeners cmListeners
	if err := s.openLink(ctx, &listeners, &remote); err != nil {
		return err
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var err error
	mine := exchange.Hello{CycleBuffer: minBuffer / 2, CacheLine: alignment, MTU: s.a.mtu(s.o)}
	if s.hello, err = s.talk.Greet(ctx, mine); err != nil {
		return err
	}
	if err := s.checkDatagram(); err != nil {
		return err
	}
	if err := s.register(); err != nil {
		return err
	}
	if s.o.RDMACM {
		err = s.connectCM(ctx, listeners, remote)
	} else {
		err = s.createLanes()
	}
	if err != nil {
		return err
	}
	s.out.header(s)
	if err := s.introduce(ctx); err != nil {
		return err
	}
	s.out.destinations(s)
	return nil
}

// openLink opens the link to the peer.
func (s *session) openLink(ctx context.Context, listeners *cmListeners, remote *netip.AddrPort) error {
	var link exchange.Link
	var peer net.Addr
	var err error
	overCM := s.o.RDMACM || s.o.TalkCM
	switch {
	case overCM && s.o.client():
		link, peer, err = s.dialCM(ctx, remote)
	case overCM:
		link, peer, err = s.acceptCM(ctx, listeners)
	case s.o.client():
		dial, cancel := s.limit(ctx)
		defer cancel()
		link, peer, err = exchange.Dial(dial, net.JoinHostPort(s.o.Host, strconv.Itoa(int(s.o.Port))))
	default:
		link, peer, err = s.acceptTCP(ctx)
	}
	if err != nil {
		return err
	}
	s.undo.add(link.Close)
	s.talk = exchange.Talk{Link: link, Client: s.o.client(), Binary: overCM}
	s.peer = peer
	return nil
}

func (s *session) acceptTCP(ctx context.Context) (exchange.Link, net.Addr, error) {
	addr := s.a.addr
	if s.o.Listen.IsValid() {
		addr = s.o.Listen
	}
	ln, err := exchange.Listen(ctx, netip.AddrPortFrom(addr, s.o.Port).String())
	if err != nil {
		return nil, nil, err
	}
	s.out.waiting(ln.Addr())
	return ln.Accept(ctx)
}

func (s *session) dialCM(ctx context.Context, remote *netip.AddrPort) (exchange.Link, net.Addr, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, map[bool]string{true: "ip4", false: "ip6"}[s.a.addr.Is4()],
		s.o.Host)
	if err != nil {
		return nil, nil, err
	}
	*remote = netip.AddrPortFrom(addrs[0].Unmap(), s.o.Port)
	return dialCM(ctx, s.a, *remote)
}

// acceptCM listens for the link and for the queue pairs. A client may connect the queue pairs right after the barrier.
func (s *session) acceptCM(ctx context.Context, listeners *cmListeners) (exchange.Link, net.Addr, error) {
	at := netip.AddrPortFrom(s.a.addr, s.o.Port)
	listen := func(cfg cmid.IDConfig) (*cmid.Listener, error) {
		ln, err := s.a.cm.IDs().Listen(at, cmid.ListenConfig{ID: cfg, Backlog: s.o.QPs + 1})
		if err == nil {
			s.undo.add(ln.Close)
		}
		return ln, err
	}
	var err error
	if listeners.talk, err = listen(cmid.IDConfig{Space: cmid.TCP}); err != nil {
		return nil, nil, err
	}
	listeners.lanes = listeners.talk
	if s.o.RDMACM && s.o.Service == service(ci.UD) {
		if listeners.lanes, err = listen(s.o.cmSpace()); err != nil {
			return nil, nil, err
		}
	}
	s.out.waiting(listeners.talk.Addr())
	return acceptCM(ctx, listeners.talk, s.o.Timeout)
}

// checkDatagram bounds the size of a message over UD by the path MTU.
func (s *session) checkDatagram() error {
	limit := s.hello.MTU.Bytes()
	if s.o.Service != service(ci.UD) || s.o.Size <= limit {
		return nil
	}
	if s.o.sizeGiven {
		return fmt.Errorf("-s %d: a datagram has at most the path MTU, %d bytes", s.o.Size, limit)
	}
	s.o.Size = limit
	return nil
}

// register creates the CQ and the two regions. The source region holds what this side sends, and what READ and atomics
// return. The target region is the memory that the peer writes to and reads from.
func (s *session) register() error {
	entries := s.o.QPs * (s.o.TxDepth + s.recvDepth())
	if entries > s.a.attr.MaxCQEs {
		return fmt.Errorf("-q %d, -t %d and -r %d: %d completions may be outstanding, a CQ of the adapter has %d",
			s.o.QPs, s.o.TxDepth, s.recvDepth(), entries, s.a.attr.MaxCQEs)
	}
	var err error
	if s.cq, err = s.a.pd.NewCQ(ci.CQCreate{Size: entries}, accesslayer.CQHandler{}); err != nil {
		return err
	}
	s.undo.add(s.cq.Destroy)
	room := max(s.o.Size, s.hello.CycleBuffer, minBuffer) + grhLen
	s.room = uint64(room+s.hello.CacheLine-1) &^ (alignment - 1)
	if int64(s.room)*int64(s.o.QPs)*2 > maxMemory {
		return fmt.Errorf("-q %d: the peer's cycle buffer of %d bytes for each queue pair exceeds %d bytes", s.o.QPs,
			s.hello.CycleBuffer, maxMemory)
	}
	n := int(s.room)*s.o.QPs + alignment
	s.sourceBytes = make([]byte, n)
	if s.source, s.sourceOff, err = s.registerMemory(ci.Bytes(s.sourceBytes), ci.LocalWrite); err != nil {
		return err
	}
	var target ci.Memory
	if s.o.Test.latency && s.o.Test.verb == write {
		s.mailbox = newMailbox(n)
		target = s.mailbox
	} else {
		target = ci.Bytes(make([]byte, n))
	}
	s.target, s.targetOff, err = s.registerMemory(target, ci.LocalWrite|s.o.Test.access())
	return err
}

// registerMemory registers memory, and returns the offset of its first aligned byte.
func (s *session) registerMemory(m ci.Memory, access ci.Access) (r ci.Region, off uint64, err error) {
	mr, err := s.a.pd.NewMR(ci.MRCreate{Memory: m, Access: access})
	if err != nil {
		return r, 0, err
	}
	s.undo.add(mr.Destroy)
	r = mr.Region()
	return r, -r.Addr & (alignment - 1), nil
}

// connectCM connects the queue pairs with RDMA CM. The barriers before and after carry no destination.
func (s *session) connectCM(ctx context.Context, listeners cmListeners, remote netip.AddrPort) error {
	if err := s.talk.Barrier(ctx, exchange.Dest{}, exchange.Dest{}); err != nil {
		return err
	}
	var err error
	if s.o.client() {
		err = s.dialLanes(ctx, remote)
	} else {
		err = s.acceptLanes(ctx, listeners.lanes)
	}
	if err != nil {
		return err
	}
	return s.talk.Barrier(ctx, exchange.Dest{}, exchange.Dest{})
}

// introduce exchanges the destinations, and connects the queue pairs if RDMA CM has not.
func (s *session) introduce(ctx context.Context) error {
	first := s.lanes[0]
	if s.o.Test.latency && s.o.Test.verb != send { // perftest's programs differ
		if _, err := s.talk.Dest(ctx, first.local); err != nil {
			return err
		}
	}
	for _, l := range s.lanes {
		var err error
		if l.remote, err = s.talk.Dest(ctx, l.local); err != nil {
			return err
		}
	}
	if !s.o.RDMACM {
		if err := exchange.CheckGIDs(first.local, first.remote); err != nil {
			return err
		}
		if err := s.connectLanes(); err != nil {
			return err
		}
	}
	if s.o.Test.verb == send {
		if err := s.barrier(ctx); err != nil {
			return err
		}
	}
	for _, l := range s.lanes {
		if err := s.talk.Barrier(ctx, l.local, l.remote); err != nil {
			return err
		}
	}
	if s.o.Test.verb != send {
		return s.barrier(ctx)
	}
	return nil
}

// barrier waits until the peer is at the same step.
func (s *session) barrier(ctx context.Context) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	return s.talk.Barrier(ctx, s.lanes[0].local, s.lanes[0].remote)
}

// poll returns the completions in the queue.
func (s *session) poll() (int, error) {
	n, err := s.cq.Poll(s.wcs)
	s.progress.Add(uint64(n))
	return n, err
}

// next waits for completions.
func (s *session) next(ctx context.Context, wcs []ci.WC) (int, error) {
	mode := accesslayer.PollBusy
	if s.o.Events {
		mode = accesslayer.PollEvent
	}
	n, err := accesslayer.Poller{CQ: s.cq, Mode: mode}.Next(ctx, wcs)
	if n > 0 {
		s.progress.Add(uint64(n))
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}

// recvLen returns the length of the buffer that a message needs.
func (s *session) recvLen(size int) int {
	if s.o.Service == service(ci.UD) {
		return grhLen + size
	}
	return size
}

// checkLength checks the length of a received message.
func (s *session) checkLength(wc ci.WC, size int) error {
	if want := s.recvLen(size); int(wc.Length) != want {
		return fmt.Errorf("received a message of %d bytes, want %d: does the peer have the same -s?",
			int(wc.Length)-want+size, size)
	}
	return nil
}

// postRecvs posts n receives of a lane. They share a buffer, because nobody reads the data.
func (s *session) postRecvs(lane, n, length int) error {
	if n == 0 {
		return nil
	}
	sgl := []ci.SGE{s.target.SGE(s.lanes[lane].recvOff, uint32(length))}
	for len(s.recvs) < n {
		s.recvs = append(s.recvs, ci.RecvWR{})
	}
	for i := range n {
		s.recvs[i] = ci.RecvWR{ID: recvMark | uint64(lane), SGL: sgl}
	}
	_, err := s.lanes[lane].qp.PostRecv(s.recvs[:n])
	return err
}

// part ends the exchange with the peer.
func (s *session) part(ctx context.Context, barrier bool) error {
	if barrier {
		wait := s.barrier
		if s.o.Test.latency && s.o.Test.oneSided() && !s.o.client() { // the client still measures
			wait = s.idle
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
	const maxWait = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if barrier {
		if err := s.talk.Bye(ctx); err != nil {
			return err
		}
	}
	if s.o.RDMACM {
		s.hangUp(ctx)
		return nil
	}
	if !s.o.client() { // the adapter may have to repeat acknowledgements until the client leaves
		select {
		case <-s.talk.Link.Done():
		case <-ctx.Done():
		}
	}
	return nil
}
