package devices

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a front end and its only file. A write of "file" needs a descriptor, one of "pipe" returns one, and others
// are stored at the address of their length. An ioctl with number 2 stores memory of the program where it was.
type fake struct {
	mu     sync.Mutex
	peer   kproxy.Peer
	bells  int
	closed chan struct{}
	once   sync.Once
	pipe   *os.File
}

func (f *fake) Tree() []Entry {
	return []Entry{{Path: "/dev/x", Data: make([]byte, 3*maxPart)}, {Path: "/dev/z", Data: []byte("z\n")},
		{Path: "/dev/dir", Dir: true, Data: []byte{}}}
}

func (f *fake) Open(path string, p kproxy.Peer) (File, error) {
	if path != "/dev/x" {
		return nil, syscall.ENOENT
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peer = p
	return f, nil
}

// opener returns the process that has opened the file last.
func (f *fake) opener() kproxy.Peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peer
}

func (f *fake) Device() (major, minor uint32) { return 231, 192 }

func (f *fake) Bell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bells++
}

func (f *fake) Close() { f.once.Do(func() { close(f.closed) }) }

func (f *fake) Call(r *Request) *Reply {
	switch {
	case r.IsIoctl && r.Ioctl == 2:
		b, ok := r.Load(r.Operand, 4)
		if !ok {
			return &Reply{NeedMemory: []Range{{Addr: r.Operand, Size: 4}}}
		}
		return &Reply{Stores: []Store{{Addr: r.Operand, Data: b}}}
	case r.IsIoctl:
		return Fail(syscall.ENOTTY)
	case string(r.Data) == "file" && r.File == nil:
		return &Reply{NeedFile: true, Number: 5}
	case string(r.Data) == "file":
		b := make([]byte, 100)
		n, _ := r.File.Read(b)
		return &Reply{Result: int64(r.Number), Stores: []Store{{Data: b[:n]}}}
	case string(r.Data) == "pipe":
		r, w, err := os.Pipe()
		if err != nil {
			return Fail(syscall.EMFILE)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pipe = r
		return &Reply{Files: []Descriptor{{File: w, Close: true, Addr: 8}}}
	}
	return &Reply{Result: int64(len(r.Data)), Stores: []Store{{Addr: uint64(len(r.Data)), Data: r.Data}}}
}

// rig is a server with one connection.
type rig struct {
	t *testing.T
	f *fake
	s *Server
	c *native.Conn
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, f: &fake{closed: make(chan struct{})}}
	r.s = New(r.f, 2, clock.Real())
	r.c = r.dial()
	t.Cleanup(r.s.Close)
	return r
}

func (r *rig) dial() *native.Conn {
	a, b, err := native.Pair()
	require.NoError(r.t, err)
	r.s.ServeConn(a)
	r.t.Cleanup(func() { b.Close() })
	return b
}

// call sends a message and returns the reply, nil if the connection was closed.
func (r *rig) call(m message, attached ...*os.File) (reply []byte, files []*os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(r.t, err)
	theirs := os.NewFile(uintptr(fds[1]), "reply")
	mine, err := native.FileConn(os.NewFile(uintptr(fds[0]), "reply"))
	require.NoError(r.t, err)
	defer mine.Close()
	m.files = uint32(len(attached))
	require.NoError(r.t, r.c.Send(encodeRequest(&m), append([]*os.File{theirs}, attached...)))
	theirs.Close()
	b := make([]byte, 1<<17)
	n, files, err := mine.Recv(b)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	require.NoError(r.t, err)
	return b[:n], files
}

func (r *rig) open() {
	b, _ := r.call(message{op: opOpen, data: []byte("/dev/x")})
	require.Len(r.t, b, replySize+32)
	require.Zero(r.t, ne.Uint32(b))
	assert.Equal(r.t, []uint32{231, 192, uint32(os.Getpid()), version}, []uint32{ne.Uint32(b[56:]), ne.Uint32(b[60:]),
		ne.Uint32(b[64:]), ne.Uint32(b[68:])})
}

// TestCalls opens a file and makes all kinds of calls. Closing the connection closes the file.
func TestCalls(t *testing.T) {
	r := newRig(t)
	r.open()
	r.f.mu.Lock()
	assert.Equal(t, os.Getpid(), r.f.peer.PID)
	r.f.mu.Unlock()
	b, _ := r.call(message{op: opWrite, data: []byte("hello")})
	assert.EqualValues(t, 5, ne.Uint64(b[8:]))
	assert.Equal(t, "hello", string(b[replySize+16:replySize+21]))
	b, _ = r.call(message{op: opIoctl, a: 1, b: 2})
	assert.EqualValues(t, syscall.ENOTTY, ne.Uint32(b))

	b, _ = r.call(message{op: opWrite, data: []byte("file")})
	assert.EqualValues(t, flagNeedFile, ne.Uint32(b[4:]))
	assert.EqualValues(t, 5, ne.Uint32(b[16:]))
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	_, err = write.WriteString("attached")
	require.NoError(t, err)
	require.NoError(t, write.Close())
	b, _ = r.call(message{op: opWrite, a: 5, data: []byte("file")}, read)
	assert.EqualValues(t, 5, ne.Uint64(b[8:]))
	assert.Equal(t, "attached", string(b[replySize+16:replySize+24]))

	b, files := r.call(message{op: opWrite, data: []byte("pipe")})
	require.Len(t, files, 1)
	assert.EqualValues(t, 8, ne.Uint64(b[replySize:]))
	files[0].Close()
	r.f.mu.Lock()
	pipe := r.f.pipe
	r.f.mu.Unlock()
	_, err = pipe.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the server has the descriptor open")
	pipe.Close()

	require.NoError(t, r.c.Send(encodeRequest(&message{op: opBell}), nil))
	require.Eventually(t, func() bool {
		r.f.mu.Lock()
		defer r.f.mu.Unlock()
		return r.f.bells == 1
	}, testenv.Patience, time.Millisecond)
	r.c.Close()
	<-r.f.closed
}

// TestBadMessages sends messages that are not of the protocol, and expects that the connection is closed.
func TestBadMessages(t *testing.T) {
	for _, m := range []message{{op: 0}, {op: opRead + 1}, {op: opRead, data: []byte("x")},
		{op: opOpen, data: []byte("/dev/x")}, {op: opTree}, {op: opIoctl, data: []byte("x")}} {
		r := newRig(t)
		r.open()
		b, _ := r.call(m)
		assert.Nil(t, b, "%+v", m)
		<-r.f.closed
	}
	r := newRig(t)
	b, _ := r.call(message{op: opWrite, data: []byte("x")})
	assert.Nil(t, b, "a write before open")
	r = newRig(t)
	b, _ = r.call(message{op: opOpen, data: []byte("/dev/y")})
	assert.EqualValues(t, syscall.ENOENT, ne.Uint32(b))
}

// TestReplyNowhere passes something that is not a socket for the reply. Other calls work.
func TestReplyNowhere(t *testing.T) {
	r := newRig(t)
	r.open()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	peer, err := l.Accept()
	require.NoError(t, err)
	defer peer.Close()
	tcp, err := c.(*net.TCPConn).File()
	require.NoError(t, err)
	for range 100 {
		for _, f := range []*os.File{null, tcp} {
			require.NoError(t, r.c.Send(encodeRequest(&message{op: opWrite, data: []byte("x")}), []*os.File{f}))
		}
	}
	b, _ := r.call(message{op: opWrite, data: []byte("hello")})
	assert.EqualValues(t, 5, ne.Uint64(b[8:]))
	r.c.Close()
	<-r.f.closed
	tcp.Close()
	c.Close()
	got, err := io.ReadAll(peer)
	require.NoError(t, err)
	assert.Empty(t, got, "a reply on a socket whose lock another process can hold")
}

// TestTooManyConnections connects more often than the server permits: the oldest connection that has not opened a file
// is closed, and none that has.
func TestTooManyConnections(t *testing.T) {
	r := newRig(t)
	first, idle := r.c, r.dial()
	r.open()
	r.c = r.dial()
	_, _, err := idle.Recv(make([]byte, 100))
	require.Error(t, err)
	r.open()
	_, _, err = r.dial().Recv(make([]byte, 100))
	require.Error(t, err, "both connections have opened a file")
	r.c = first
	got, _ := r.call(message{op: opWrite, data: []byte("abc")})
	require.NotEmpty(t, got)
}

// TestReadTree reads a tree that does not fit into one reply, through a listener, and contents of its files.
func TestReadTree(t *testing.T) {
	r := newRig(t)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := native.Listen(socket)
	require.NoError(t, err)
	served := make(chan error)
	s := New(r.f, 16, clock.Real()) // connections that have just been closed count
	defer s.Close()
	go func() { served <- s.Serve(l) }()
	assert.True(t, s.IsIdle())
	tree, daemon, err := ReadTree(socket, 30*time.Second)
	require.NoError(t, err)
	assert.False(t, s.IsIdle(), "this process has read the tree")
	assert.False(t, s.Retire(func() bool { return true }))
	assert.Equal(t, kproxy.Peer{PID: os.Getpid(), UID: os.Getuid(), GID: os.Getgid()}, daemon)
	assert.Equal(t, r.f.Tree(), tree)
	content, err := ReadContent(socket, "/dev//y/../z", 30*time.Second)
	require.NoError(t, err)
	assert.Equal(t, "z\n", string(content))
	for name, want := range map[string]error{"/dev/x": syscall.EFBIG, "/dev": syscall.EISDIR,
		"/dev/dir": syscall.EISDIR, "/dev/none": syscall.ENOENT, "": syscall.ENOENT} {
		_, err := ReadContent(socket, name, 30*time.Second)
		require.ErrorIs(t, err, want, name)
		require.NotErrorIs(t, err, ErrNoAnswer)
	}
	require.NoError(t, l.Close())
	require.NoError(t, <-served)
	_, err = ReadContent(socket, "/dev/z", time.Second)
	require.ErrorIs(t, err, ErrNoAnswer)
	_, _, err = ReadTree(socket, time.Second)
	require.Error(t, err)
}

// TestFrontEnds opens files of two front ends.
func TestFrontEnds(t *testing.T) {
	f := &fake{closed: make(chan struct{})}
	list := FrontEnds{FrontEnds{}, f}
	assert.Equal(t, f.Tree(), list.Tree())
	got, err := list.Open("/dev/x", kproxy.Peer{})
	require.NoError(t, err)
	assert.Same(t, f, got)
	_, err = list.Open("/dev/y", kproxy.Peer{})
	assert.ErrorIs(t, err, syscall.ENOENT)
}

// polled is a file that programs poll.
type polled struct {
	*fake
	wake chan func()
}

func (p *polled) Open(path string, peer kproxy.Peer) (File, error) {
	_, err := p.fake.Open(path, peer)
	return p, err
}

func (p *polled) SetWake(wake func()) { p.wake <- wake }

func (p *polled) Call(r *Request) *Reply {
	switch {
	case string(r.Data) == "wait":
		return &Reply{Errno: syscall.EAGAIN, Wait: true, Quiet: true}
	case r.File == nil:
		return &Reply{NeedFile: true}
	case r.Device == File(p):
		return &Reply{QuietFile: true}
	}
	return Fail(syscall.EINVAL)
}

// TestPolled makes the descriptor of a file readable, and finds the file by its descriptor.
func TestPolled(t *testing.T) {
	p := &polled{&fake{closed: make(chan struct{})}, make(chan func(), 1)}
	s := New(p, 2, clock.Real())
	t.Cleanup(s.Close)
	a, theirs, err := native.FilePair()
	require.NoError(t, err)
	defer theirs.Close()
	s.ServeConn(a)
	info, err := theirs.Stat()
	require.NoError(t, err)
	raw, err := theirs.SyscallConn()
	require.NoError(t, err)
	var dup int
	require.NoError(t, raw.Control(func(fd uintptr) { dup, err = unix.Dup(int(fd)) }))
	require.NoError(t, err)
	r := &rig{t: t, f: p.fake, s: s}
	r.c, err = native.FileConn(os.NewFile(uintptr(dup), "dup"))
	require.NoError(t, err)
	t.Cleanup(func() { r.c.Close() })
	b, _ := r.call(message{op: opOpen, a: info.Sys().(*syscall.Stat_t).Ino, data: []byte("/dev/x")})
	require.Zero(t, ne.Uint32(b))
	(<-p.wake)()
	n, _, err := r.c.Recv(make([]byte, 10))
	require.NoError(t, err)
	assert.Equal(t, len(wakeMessage), n)

	b, _ = r.call(message{op: opWrite, data: []byte("wait")})
	assert.EqualValues(t, syscall.EAGAIN, ne.Uint32(b))
	assert.EqualValues(t, flagWait|flagQuiet, ne.Uint32(b[4:]))
	b, _ = r.call(message{op: opWrite, data: []byte("x")}, theirs)
	assert.EqualValues(t, flagQuietFile, ne.Uint32(b[4:]))
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	b, _ = r.call(message{op: opWrite, data: []byte("x")}, null)
	assert.EqualValues(t, syscall.EINVAL, ne.Uint32(b))
}
