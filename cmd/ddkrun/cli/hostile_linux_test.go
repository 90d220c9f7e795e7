package cli

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
)

// hostileDaemon has a device file whose every registration is one of memory that the daemon cannot reach. Then it
// requests copies. end is the last message, after which it requests nothing.
type hostileDaemon struct {
	t   *testing.T
	end []byte

	mu     sync.Mutex // the program makes one call at a time; the daemon executes each on any goroutine
	socket *os.File   // by which it requests copies
	tokens []uint64
}

func (*hostileDaemon) Tree() []devices.Entry { return nil }

func (d *hostileDaemon) Open(string, kproxy.Peer) (devices.File, error) { return d, nil }

func (*hostileDaemon) Device() (major, minor uint32) { return 231, 192 }

func (*hostileDaemon) Bell() {}

func (*hostileDaemon) Close() {}

// Call executes a registration.
func (d *hostileDaemon) Call(r *devices.Request) *devices.Reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.socket == nil {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if !assert.NoError(d.t, err) {
			return devices.Fail(syscall.EMFILE)
		}
		d.socket = os.NewFile(uintptr(fds[0]), "copies")
		return &devices.Reply{Errno: syscall.EFAULT, Copies: os.NewFile(uintptr(fds[1]), "copies")}
	}
	if !assert.NotZero(d.t, r.Token) {
		return devices.Fail(syscall.EFAULT)
	}
	d.tokens = append(d.tokens, r.Token)
	start := binary.NativeEndian.Uint64(r.Data[16:])
	if len(d.tokens) == 2 {
		d.attack(start - 2*4096)
	}
	return &devices.Reply{Result: int64(len(r.Data)), Stores: []devices.Store{{
		Addr: binary.NativeEndian.Uint64(r.Data[8:]), Data: make([]byte, 12)}}}
}

// attack requests copies of the program's four pages. Only those that the program permits are executed.
func (d *hostileDaemon) attack(pages uint64) {
	const page = 4096
	own, readOnly := d.tokens[0], d.tokens[1]
	for i, x := range []struct {
		what        string
		token, addr uint64
		size        uint32
		kind        schema.CopyKind
		ok          bool
	}{
		{"write", own, pages + page, page, schema.CopyWrite, true},
		{"read", own, pages + page, page, schema.CopyRead, true},
		{"nothing", own, pages + 2*page, 0, schema.CopyRead, true},
		{"read of read-only", readOnly, pages + 2*page, page, schema.CopyRead, true},
		{"write to read-only", readOnly, pages + 2*page, page, schema.CopyWrite, false},
		{"byte before", own, pages + page - 1, 1, schema.CopyWrite, false},
		{"byte behind", own, pages + 2*page, 1, schema.CopyWrite, false},
		{"across the beginning", own, pages + page - 1, 2, schema.CopyWrite, false},
		{"across the end", own, pages + 2*page - 1, 2, schema.CopyWrite, false},
		{"read across the end", own, pages + 2*page - 1, 2, schema.CopyRead, false},
		{"more than there is", own, pages + page, page + 1, schema.CopyWrite, false},
		{"largest", own, pages + page, schema.MaxCopy, schema.CopyWrite, false},
		{"no address", own, 0, 8, schema.CopyWrite, false},
		{"last address", own, ^uint64(0), 1, schema.CopyWrite, false},
		{"overflow", own, ^uint64(0) - page, 2 * page, schema.CopyRead, false},
		{"address of another token", readOnly, pages + page, 1, schema.CopyRead, false},
		{"no token", 0, pages + page, 1, schema.CopyRead, false},
		{"unknown token", 1 << 40, pages + page, 1, schema.CopyWrite, false},
	} {
		c := schema.Copy{ID: uint64(i) + 1, Token: x.token, Addr: x.addr, Length: x.size, Kind: x.kind}
		b := c.Append(nil)
		if x.kind == schema.CopyWrite {
			data := make([]byte, x.size)
			for i := range data {
				data[i] = 'w'
			}
			b = append(b, data...)
		}
		answer, err := d.exchange(b)
		if !assert.NoError(d.t, err, x.what) {
			return
		}
		r, data, err := schema.ParseCopyReply(answer)
		assert.NoError(d.t, err, x.what)
		assert.Equal(d.t, c.ID, r.ID, x.what)
		assert.Equal(d.t, x.ok, !r.Failed, x.what)
		if x.ok && x.kind == schema.CopyRead {
			assert.Len(d.t, data, int(x.size), x.what)
		} else {
			assert.Empty(d.t, data, x.what)
		}
	}
	if d.end != nil {
		_, err := d.exchange(d.end)
		assert.True(d.t, errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET), "the program closes the socket: %v",
			err)
	}
}

// exchange sends a message and receives the reply.
func (d *hostileDaemon) exchange(b []byte) ([]byte, error) {
	if err := d.socket.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := d.socket.Write(b); err != nil {
		return nil, err
	}
	answer := make([]byte, schema.CopyReplySize+schema.MaxCopy+1)
	n, err := d.socket.Read(answer)
	return answer[:n], err
}

// A target is a processor for which the library and a program are built.
type target struct {
	compiler string
	emulator []string // that runs the program, with its arguments; nil: this processor
}

// targetOf returns the target of a processor. It skips the test if this machine lacks a compiler or an emulator.
func targetOf(t *testing.T, processor string) target {
	if processor == runtime.GOARCH {
		cc, err := exec.LookPath("cc")
		if err != nil {
			t.Skip("no C compiler (Debian: gcc)")
		}
		return target{compiler: cc}
	}
	cc, err := exec.LookPath(builders[processor].command)
	if err != nil {
		t.Skipf("%v (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)", err)
	}
	name := "qemu-" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[processor]
	root := "/usr/" + strings.TrimSuffix(filepath.Base(cc), "-gcc")
	for _, name := range []string{name, name + "-static"} {
		if qemu, err := exec.LookPath(name); err == nil {
			return target{cc, []string{qemu, "-L", root}}
		}
	}
	t.Skipf("no %s (Debian: qemu-user)", name)
	return target{}
}

// TestHostileDaemon runs a program whose daemon requests copies that the program does not permit, and then sends
// messages that are none. The library executes no such copy, closes the socket, and the program continues. It does so
// with the libraries of all processors, by emulation.
func TestHostileDaemon(t *testing.T) {
	testenv.Long(t)
	message := func(c schema.Copy, n int) []byte { return append(c.Append(nil), make([]byte, n)...) }
	ends := map[string][]byte{
		"none":                nil,
		"short":               make([]byte, schema.CopySize-1),
		"of no kind":          message(schema.Copy{}, 0),
		"of an unknown kind":  message(schema.Copy{Kind: 3}, 0),
		"too long":            message(schema.Copy{Kind: schema.CopyRead, Length: schema.MaxCopy + 1}, 0),
		"longest":             message(schema.Copy{Kind: schema.CopyRead, Length: ^uint32(0)}, 0),
		"without its data":    message(schema.Copy{Kind: schema.CopyWrite, Length: 8}, 7),
		"with more data":      message(schema.Copy{Kind: schema.CopyWrite, Length: 8}, 9),
		"a read with data":    message(schema.Copy{Kind: schema.CopyRead, Length: 8}, 8),
		"more data than room": message(schema.Copy{Kind: schema.CopyWrite, Length: schema.MaxCopy}, schema.MaxCopy+1),
	}
	for processor := range builders {
		t.Run(processor, func(t *testing.T) {
			of := targetOf(t, processor)
			library := filepath.Join(t.TempDir(), "library.so")
			require.NoError(t, os.WriteFile(library, carrierLibrary.built(processor), 0o600))
			program := filepath.Join(t.TempDir(), "hostile")
			out, err := exec.Command(of.compiler, "-O1", "-Wall", "-o", program, "testdata/hostile.c").CombinedOutput()
			require.NoError(t, err, "%s", out)
			for name, end := range ends {
				t.Run(name, func(t *testing.T) {
					(&hostileDaemon{t: t, end: end}).serve(library, append(of.emulator, program))
				})
			}
		})
	}
}

// serve runs a program that preloads a library.
func (d *hostileDaemon) serve(library string, command []string) {
	t := d.t
	dir, err := os.MkdirTemp("", "ddkrun") // t.TempDir can be too long for a socket
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixpacket"})
	require.NoError(t, err)
	node := filepath.Join(dir, "dev/infiniband/uverbs0")
	require.NoError(t, os.MkdirAll(filepath.Dir(node), 0o755))
	require.NoError(t, os.WriteFile(node, []byte("231:192\n"), 0o644))
	s := devices.New(d, 8, clock.Real())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environment(os.Environ(), library, filepath.Join(dir, "s"), dir, shareNever)
	out, err := cmd.Output() // without what the linker of an emulator prints about the library
	l.Close()
	require.NoError(t, <-served)
	s.Close()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "0 equal\nw equal\n2 equal\n3 equal\n", string(out))
	require.Len(t, d.tokens, 2)
	require.NoError(t, d.socket.Close())
}
