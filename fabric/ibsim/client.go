package ibsim

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/fabric"
	"ciddk/mad"
)

// Bounds for each client: messages that wait for it to read (288 bytes each), and requests without a response.
const (
	maxQueued  = 1024
	maxPending = 4096
)

// A client is a connected program.
type client struct {
	server  *Server
	number  int
	process uint32
	ctl     *net.UnixAddr
	data    *net.UnixAddr
	conn    *socket // of this client's messages
	port    *fabric.Port
	detach  func()
	manager atomic.Bool
	leaving bool // guarded by Server.mu

	queue   chan [dataLen]byte
	stop    chan struct{}
	readEnd chan struct{} // closed when read has ended
	once    sync.Once
	dropped atomic.Uint64

	mu      sync.Mutex
	pending map[uint64]*pending // by transaction ID with the mark; nil once closed

	outgoing      map[transfer]*outgoing
	outgoingBytes int
}

// pending is a request without a response yet.
type pending struct {
	m     message
	timer clock.Timer
}

func newClient(s *Server, number int, process uint32, ctl *net.UnixAddr, p *fabric.Port) (*client, error) {
	suffix := strconv.FormatUint(uint64(process), 10)
	conn, err := listen(address(s.cfg.Name, ":out"+strconv.Itoa(number)), s.cfg.Clock)
	if err != nil {
		return nil, err
	}
	k := unconnected(s, p)
	k.number, k.process, k.conn = number, process, conn
	k.ctl, k.data = ctl, address(s.cfg.Name, ":in"+suffix)
	if err := conn.connect(k.data); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return k, nil
}

// unconnected returns a client without sockets.
func unconnected(s *Server, p *fabric.Port) *client {
	return &client{server: s, port: p, queue: make(chan [dataLen]byte, maxQueued), stop: make(chan struct{}),
		readEnd: make(chan struct{}), pending: make(map[uint64]*pending), outgoing: make(map[transfer]*outgoing)}
}

// start begins to serve the client.
func (k *client) start() {
	k.detach = k.port.Attach(k)
	k.server.done.Add(2)
	go k.read()
	go k.write()
}

// close ends the client's goroutines, and takes it off its port. The role of a subnet manager ends with it.
func (k *client) close() {
	k.once.Do(func() {
		close(k.stop)
		_ = k.conn.Close()
		<-k.readEnd // until then the name of the socket is in use
		k.setManager(false)
		k.detach()
		k.mu.Lock()
		defer k.mu.Unlock()
		for id, p := range k.pending {
			p.timer.Stop()
			delete(k.pending, id)
		}
		k.pending = nil
		for key := range k.outgoing {
			k.dropOutgoing(key)
		}
	})
}

// setManager begins or ends the role of a subnet manager at the port.
func (k *client) setManager(on bool) {
	if k.manager.Swap(on) == on {
		return
	}
	k.port.SetCapability(ci.PortCapSM, on || k.server.hasManager(k.port))
}

// hasManager reports whether a client at the port is a subnet manager.
func (s *Server) hasManager(p *fabric.Port) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.clients {
		if k != nil && k.port == p && k.manager.Load() {
			return true
		}
	}
	return false
}

// isAlive reports whether the client's data socket still exists.
func (k *client) isAlive() bool {
	c, err := net.DialUnix("unixgram", nil, k.data)
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = c.Close()
	return true
}

// read passes the client's messages to the fabric.
func (k *client) read() {
	defer k.server.done.Done()
	defer close(k.readEnd)
	var b [dataLen + 1]byte
	for {
		n, from, err := k.conn.receive(b[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if from == nil || peerAddress(from).Name != k.data.Name {
			k.server.cfg.Log.Warn("message from another process dropped", "client", k.number)
			continue
		}
		m, ok := parseMessage(b[:n])
		if !ok {
			k.server.cfg.Log.Warn("message dropped", "client", k.number, "bytes", n)
			continue
		}
		k.send(&m)
	}
}

// send sends a message into the fabric.
func (k *client) send(m *message) {
	original := *m
	waits := hasResponse(&m.mad)
	if !isResponse(&m.mad) {
		setMark(&m.mad, k.mark())
	}
	id := tid(&m.mad)
	if waits {
		k.expect(id, &original)
	}
	if k.sendSegment(m) {
		return
	}
	d := m.datagram()
	if err := k.port.Send(&d); err != nil && waits {
		k.discarded(id)
	}
}

// discardTime is the time after which a request that the fabric has discarded returns. Programs send it again at once
// then, three times as a rule. A link that a manager lets train in between is up again in this time, also on a machine
// with much load; without it all repetitions would fall into the training.
const discardTime = 20 * time.Millisecond

// discarded notes that a request gets no response.
func (k *client) discarded(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pending[id]; p != nil {
		p.timer.Reset(min(discardTime, k.server.cfg.Timeout))
	}
}

// mark returns the mark of the client's transactions.
func (k *client) mark() uint16 { return markBase + uint16(k.number) }

// expect notes a request until its response.
func (k *client) expect(id uint64, m *message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pending == nil || len(k.pending) >= maxPending {
		return // without a note, the client waits for its own timers
	}
	if old := k.pending[id]; old != nil {
		old.timer.Stop()
	}
	p := &pending{m: *m}
	p.timer = k.server.cfg.Clock.AfterFunc(k.server.cfg.Timeout, func() { k.expire(id) })
	k.pending[id] = p
}

// settle removes the note of a request. It returns nil if there is none.
func (k *client) settle(id uint64) *pending {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pending[id]
	if p != nil {
		p.timer.Stop()
		delete(k.pending, id)
	}
	return p
}

// expire returns a request to the client as one without a response.
func (k *client) expire(id uint64) {
	if p := k.settle(id); p != nil {
		p.m.status = statusTimeout
		k.enqueue(&p.m)
	}
}

// Take implements fabric.Client.
func (k *client) Take(d *fabric.Datagram) bool {
	m := d.MAD
	if k.takeControl(d) {
		return true
	}
	if isResponse(m) {
		if markOf(m) != k.mark() {
			return false
		}
		k.settle(tid(m))
	} else if !k.wants(d) {
		return false
	}
	length, ok := k.takeSegment(d)
	if !ok {
		return true
	}
	out := fromDatagram(d)
	out.length = length
	k.markCut(&out)
	k.enqueue(&out)
	k.acknowledge(d)
	return true
}

// wants reports whether the client takes a request.
func (k *client) wants(d *fabric.Datagram) bool {
	c := mad.Class(d.MAD[1])
	switch {
	case c == mad.ClassSubnetLID || c == mad.ClassSubnetDirected:
		return k.manager.Load()
	case c == mad.ClassSubnetAdmin:
		return k.manager.Load() != (mad.Method(d.MAD[offMethod]) == mad.Report)
	case c >= mad.ClassVendor1First && c <= mad.ClassVendor1Last, c >= mad.ClassVendor2First &&
		c <= mad.ClassVendor2Last:
		return markOf(d.MAD) != k.mark()
	}
	return false
}

// enqueue adds a message to those that the client is to get. A client that does not read loses messages.
func (k *client) enqueue(m *message) {
	var b [dataLen]byte
	m.put(&b)
	select {
	case k.queue <- b:
	default:
		k.dropped.Add(1)
	}
}

// write sends the client its messages.
func (k *client) write() {
	defer k.server.done.Done()
	for {
		select {
		case <-k.stop:
			return
		case b := <-k.queue:
			_, err := k.conn.Write(b[:]) // until the client reads, or Close
			if errors.Is(err, syscall.ECONNREFUSED) {
				k.server.disconnect(k, "the process has ended")
				return
			}
			if err != nil {
				k.dropped.Add(1)
			}
		}
	}
}
