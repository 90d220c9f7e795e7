package devices

import (
	"errors"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/passedfd"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// A Server serves connections of carriers. Its methods may be called concurrently.
type Server struct {
	front   FrontEnd
	max     int // connections
	clock   clock.Clock
	discard *passedfd.Discarder

	mu     sync.Mutex
	closed bool
	conns  native.Conns
	files  map[socket]File
	holds  map[int]func() // stop the watches of processes that have read the tree, by their numbers
	wait   sync.WaitGroup
}

// socket identifies the program's end of a connection. The inode is the program's own statement; one that is wrong
// concerns programs of the same user only.
type socket struct {
	uid   int
	inode uint64
}

// openTimeout is the time in which a process must send its first message.
const openTimeout = 10 * time.Second

// maxPending is the number of calls of one open file in execution. The server then reads no further ones.
const maxPending = 64

// New returns a server of up to max connections. clk is the source of time for timeouts.
func New(front FrontEnd, max int, clk clock.Clock) *Server {
	return &Server{front: front, max: max, clock: clk, discard: passedfd.NewDiscarder(clk),
		files: map[socket]File{}, holds: map[int]func(){}}
}

// acceptRetry is the time after which Serve accepts again when the daemon has no descriptor for another connection.
const acceptRetry = 50 * time.Millisecond

// Serve accepts connections until the listener is closed, and returns its error; net.ErrClosed is nil.
func (s *Server) Serve(l *net.UnixListener) error {
	for {
		c, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case isShortage(err):
			if s.makeRoom() {
				continue
			}
			again := make(chan struct{})
			s.clock.AfterFunc(acceptRetry, func() { close(again) })
			<-again
			continue
		case err != nil:
			return err
		}
		conn, err := native.NewConn(c)
		if err != nil {
			c.Close()
			continue
		}
		s.ServeConn(conn)
	}
}

// isShortage reports whether accept failed because of the machine's or the process's limits.
func isShortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ServeConn serves a connection, which it then owns, on a goroutine of its own. If there is no room for it, ServeConn
// closes the oldest connection that has not sent a request yet.
func (s *Server) ServeConn(c *native.Conn) {
	_, uid, _, err := c.Peer()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A user has three quarters of the connections. The rest is for others.
	if err != nil || s.closed || s.discard.IsStuck(uid) || !s.conns.Admit(c, uid, s.max, s.max-s.max/4) {
		c.Close()
		return
	}
	c.Guard(s.discard)
	s.wait.Go(func() {
		s.serve(c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns.Remove(c)
	})
}

// makeRoom closes a connection that has not begun, if there is one, when the daemon has no descriptors for another.
func (s *Server) makeRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns.Evict()
}

// Close ends all connections and returns when everything that their clients had has been destroyed. The listener is
// the caller's; it must be closed before.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns.All() {
		_ = c.Interrupt() // it fails if the client has closed the connection, which ends Recv, too
	}
	s.mu.Unlock()
	s.wait.Wait()
	s.mu.Lock()
	holds := s.holds
	s.holds = nil
	s.mu.Unlock()
	for _, stop := range holds {
		stop()
	}
}

// hold counts the process of a connection as a client until it ends: a program may open its first device file a while
// after ddkrun has read the tree, and may be a script, whose commands do so. There are no more holds than connections.
func (s *Server) hold(c *native.Conn) {
	pid, _, _, err := c.Peer()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.holds == nil || s.holds[pid] != nil || len(s.holds) >= s.max {
		return
	}
	f, err := c.PeerProcess()
	if err != nil { // a process of another PID namespace
		return
	}
	s.holds[pid] = native.WatchProcess(f, func() {
		s.mu.Lock()
		delete(s.holds, pid)
		s.mu.Unlock()
		f.Close()
	})
}

// IsIdle reports whether there is no client.
func (s *Server) IsIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.holds) == 0 && s.conns.Len() == 0
}

// Retire reports whether there is no client, and isIdle returns true. The server accepts no connection from then on.
func (s *Server) Retire(isIdle func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = s.closed || len(s.holds) == 0 && s.conns.Len() == 0 && isIdle()
	return s.closed
}

// buffers are those of messages that are being executed.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, schema.MaxMessage)
	return &b
}}

// serve executes the messages of a connection until it is closed.
func (s *Server) serve(c *native.Conn) {
	defer c.Close()
	// A child process may have a copy of the socket, so the end of the client process ends the session.
	stop := c.WatchPeer(func() { c.Close() })
	defer stop()
	late := s.clock.AfterFunc(openTimeout, func() { c.Close() })
	f, process := s.first(c)
	late.Stop()
	if f == nil {
		return
	}
	s.mu.Lock()
	s.conns.Begin(c)
	s.mu.Unlock()
	if process != nil {
		stop := native.WatchProcess(process, func() { c.Close() })
		defer stop()
	}
	if x, ok := f.(Dialog); ok {
		converse(c, x)
		s.forget(f)
		f.Close()
		return
	}
	d := &opener{s: s, c: c, f: f, pending: make(chan struct{}, maxPending)}
	for d.next() {
	}
	s.forget(f)
	f.Close()
	c.Close() // replies that wait for descriptors to be received fail
	d.wait.Wait()
}

// converse passes on datagrams until the connection is closed.
func converse(c *native.Conn, f Dialog) {
	for {
		buf, n, files, err := c.RecvPooled(&buffers)
		c.Discard(files)
		if err != nil {
			return
		}
		err = f.Datagram((*buf)[:n], func(b []byte) error { return c.Send(b, nil) })
		buffers.Put(buf)
		if err != nil {
			return
		}
	}
}

// first executes the requests for the tree and the open, which returns the file, or nil, and the pidfd of its process,
// if that is not the one that connected.
func (s *Server) first(c *native.Conn) (File, *os.File) {
	var tree []byte // as of the request for its first part
	for {
		buf, m, files, err := receive(c)
		if err != nil {
			return nil, nil
		}
		if m.op == opTree && m.a == 0 {
			s.hold(c)
			list := s.front.Tree()
			if m.b < firstLinks {
				list = slices.DeleteFunc(list, func(e Entry) bool { return e.Link != "" })
			}
			tree = encodeTree(list)
		}
		f, ok := s.open(c, &m, files, tree)
		buffers.Put(buf)
		if f != nil && m.files == 1 {
			c.Discard(files[:1])
			return f, files[1]
		}
		c.Discard(files)
		if !ok || f != nil {
			return f, nil
		}
	}
}

// open executes an opTree, an opContent or an opOpen. It reports false if the connection is to be closed.
func (s *Server) open(c *native.Conn, m *message, files []*os.File, tree []byte) (File, bool) {
	switch m.op {
	case opTree:
		send(files[0], part(tree, m.a))
		return nil, true
	case opContent:
		send(files[0], content(s.front.Tree(), string(m.data)))
		return nil, true
	case opOpen:
		pid, uid, gid, err := c.Peer()
		if err != nil {
			return nil, false
		}
		if m.files == 1 {
			pid, err = processOf(files[1], uid)
		}
		var f File
		if err == nil {
			f, err = s.front.Open(string(m.data), kproxy.Peer{PID: pid, UID: uid, GID: gid})
		}
		if err != nil {
			send(files[0], Fail(errnoOf(err)))
			return nil, false
		}
		if x, ok := f.(Poller); ok {
			x.SetWake(func() { _ = c.TrySend(wakeMessage) }) // a program that does not receive has had the message
		}
		s.remember(socket{uid, m.a}, f)
		send(files[0], opened(f))
		return f, true
	}
	return nil, false
}

// wakeMessage makes a descriptor readable.
var wakeMessage = []byte{1}

// receive receives one message. The caller returns the buffer, to which the message refers, to buffers.
func receive(c *native.Conn) (*[]byte, message, []*os.File, error) {
	buf, n, files, err := c.RecvPooled(&buffers)
	if err != nil {
		return nil, message{}, nil, err
	}
	m, err := parse((*buf)[:n], len(files))
	if err != nil {
		c.Discard(files)
		buffers.Put(buf)
		return nil, message{}, nil, err
	}
	return buf, m, files, nil
}

// remember makes an open file known by the program's end of its connection, unless another one is.
func (s *Server) remember(k socket, f File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[k] == nil {
		s.files[k] = f
	}
}

// forget is the inverse of remember.
func (s *Server) forget(f File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.files, func(_ socket, x File) bool { return x == f })
}

// device returns the open file whose descriptor a program has sent, nil if it is none of the user's.
func (s *Server) device(uid int, file *os.File) File {
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() != os.ModeSocket {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[socket{uid, st.Ino}]
}

// opener is a connection with an open file.
type opener struct {
	s       *Server
	c       *native.Conn
	f       File
	pending chan struct{} // one element for each call in execution
	wait    sync.WaitGroup
}

// next receives one message and executes it. It reports false when the connection is to be closed.
func (d *opener) next() bool {
	buf, m, files, err := receive(d.c)
	if err != nil {
		return false
	}
	switch m.op {
	case opBell:
		d.f.Bell()
		buffers.Put(buf)
		return true
	case opWrite, opIoctl, opRead:
	default:
		d.c.Discard(files)
		buffers.Put(buf)
		return false
	}
	if m.op == opRead {
		d.start(buf, files, func() *Reply { return read(d.f, m.b, m.a) })
		return true
	}
	r := &Request{Data: m.data, Offset: m.b}
	if m.files == 0 {
		r.Offset, r.Token = 0, m.b
	}
	if m.op == opIoctl {
		memory, err := parseRanges(m.data)
		if err != nil {
			d.c.Discard(files)
			buffers.Put(buf)
			return false
		}
		r = &Request{IsIoctl: true, Ioctl: m.a & math.MaxUint32, Operand: m.b, Memory: memory}
	}
	d.start(buf, files, func() *Reply {
		if m.files == 1 {
			r.Number, r.File = int32(m.a), files[1]
			if r.IsIoctl {
				r.Number = int32(m.a >> 32)
			}
			if _, uid, _, err := d.c.Peer(); err == nil {
				r.Device = d.s.device(uid, files[1])
			}
		}
		return d.f.Call(r)
	})
	return true
}

// start executes a call of a message on a goroutine of its own.
func (d *opener) start(buf *[]byte, files []*os.File, call func() *Reply) {
	d.pending <- struct{}{}
	d.wait.Go(func() {
		defer func() {
			d.c.Discard(files)
			buffers.Put(buf)
			<-d.pending
		}()
		reply := call()
		if d.reply(files[0], reply) {
			files = files[1:]
		}
		if reply.Copies != nil {
			reply.Copies.Close()
		}
		for _, x := range reply.Files {
			if x.Close {
				x.File.Close()
			}
		}
	})
}

// read executes a read.
func read(f File, addr, size uint64) *Reply {
	r, ok := f.(Reader)
	if !ok {
		return Fail(syscall.EINVAL)
	}
	return r.Read(addr, min(size, MaxRead))
}

// reply sends a reply. It reports whether the connection keeps the socket: see native.Conn.SendTo. A reply whose
// descriptors cannot be sent is one that the call has failed.
func (d *opener) reply(to *os.File, r *Reply) (kept bool) {
	b, files := encodeReply(r)
	if len(files) == 0 {
		send(to, r)
		return false
	}
	err := errNoSocket
	if isUnixSocket(to) {
		kept, err = d.c.SendTo(to, b, files)
	}
	if err == nil {
		return kept
	}
	if r.Unsent != nil {
		r.Unsent()
	}
	errno := syscall.EIO
	if errors.Is(err, native.ErrInFlight) || errors.Is(err, unix.ETOOMANYREFS) {
		errno = syscall.ENFILE
	}
	send(to, Fail(errno))
	return false
}

var errNoSocket = errors.New("devices: the descriptor for the reply is not a Unix socket")

// send sends a reply without descriptors, without blocking. A process that passes something that is not a Unix socket
// with room for the reply gets none.
func send(to *os.File, r *Reply) {
	if !isUnixSocket(to) {
		return
	}
	b, _ := encodeReply(r)
	_ = control(to, func(fd int) {
		for unix.Sendmsg(fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) == unix.EINTR {
		}
	})
}

// isUnixSocket reports whether a descriptor is a Unix socket. Another socket could block: a process can hold the lock
// of a TCP socket while it sends from memory whose pages do not come.
func isUnixSocket(f *os.File) bool {
	is := false
	_ = control(f, func(fd int) { // the error means that it is closed
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		is = err == nil && domain == unix.AF_UNIX
	})
	return is
}

// control calls fn with the number of a descriptor.
func control(f *os.File, fn func(fd int)) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { fn(int(fd)) })
}
